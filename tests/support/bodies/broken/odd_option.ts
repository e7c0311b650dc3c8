import { defineJob } from "dandori";

export default defineJob({ retry: { max: 3n } as never, run() {} });
