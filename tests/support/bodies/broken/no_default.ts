import { defineJob } from "dandori";

export const job = defineJob({ run() {} });
