/** Throws what its args name. */
import { defineJob, Fatal, RetryAfter } from "dandori";

function deep(): never {
  throw new RangeError("out of range", { cause: new Error("the root of it") });
}

export default defineJob({
  async run({ args }) {
    switch (args) {
      case "error":
        return deep();
      case "text":
        throw "just a text";
      case "object":
        throw { code: 7 };
      case "nothing":
        throw undefined;
      case "fatal":
        throw new Fatal("no use");
      case "later":
        throw new RetryAfter(90);
      case "circle": {
        const all = new AggregateError([new Error("one of them")], "all failed");
        all.errors.push(all, ...Array(3).fill(new AggregateError(Array(5).fill(all), "again")));
        all.name = "Fatal";
        throw all;
      }
      case "long": {
        const error = new Fatal("with a long stack");
        error.stack = `Fatal: with a long stack\n${Array(30).fill(`    at ${"x".repeat(100_000)}`).join("\n")}`;
        throw error;
      }
      case "rejection":
        Promise.reject(new TypeError("nobody waited"));
        return await new Promise((resolve) => setTimeout(resolve, 10_000));
      case "timer":
        setTimeout(() => {
          throw new Error("thrown in a timer");
        }, 1);
        return await new Promise((resolve) => setTimeout(resolve, 10_000));
    }
  },
});
