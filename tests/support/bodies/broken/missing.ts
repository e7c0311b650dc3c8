import { defineJob } from "dandori";
import { nothing } from "./there_is_no_such_file.ts";

export default defineJob({ run: () => nothing });
