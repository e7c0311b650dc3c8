// A schema of one's own, of the least that Standard Schema asks for.
import { defineJob, type Schema } from "dandori";

const even: Schema<number> = {
  "~standard": {
    version: 1,
    vendor: "own",
    validate: (value) =>
      Number(value) % 2 === 0 ? { value: value as number } : { issues: [{ message: "must be even", path: ["n", 0] }] },
  },
};

export default defineJob({ args: even, run: ({ args }) => args });
