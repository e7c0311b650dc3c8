import { defineJob } from "dandori";

export default defineJob({ description: "nothing to do" } as never);
