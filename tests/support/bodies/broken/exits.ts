import { defineJob } from "dandori";

Deno.exit(0);

export default defineJob({ run() {} });
