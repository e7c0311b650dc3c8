import { defineJob } from "dandori";

await new Promise(() => {});

export default defineJob({ run() {} });
