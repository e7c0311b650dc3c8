import { defineJob } from "dandori";

for (;;);

export default defineJob({ run() {} });
