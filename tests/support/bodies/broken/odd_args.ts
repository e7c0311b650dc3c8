import { defineJob } from "dandori";

export default defineJob({ args: { tenant: "string" } as never, run() {} });
