/** A worker of which only its own HTTP server is there, in a process that may open few files. Prints its port, and what of it failed. */
import { hear } from "../../src/platform/facts.ts";
import { serveWorkerMetrics } from "../../src/ops/metrics/worker.ts";

hear((name) => void (name === "loop.failed" && console.log(name)));
console.log(serveWorkerMetrics({ host: "127.0.0.1", port: 0, token: undefined }, () => undefined).port);
