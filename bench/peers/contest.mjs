/**
 * One peer in one setting: `node contest.mjs '{"peer", "how", "database_url", "redis_url", "workers", "concurrency"}'`. Reads one
 * command a line on stdin and answers each with a line of JSON, so that the bench counts CPU between two of them. Worker
 * processes are forks of this file with `"role": "worker"`.
 */
import { fork } from "node:child_process";
import { createInterface } from "node:readline";
import pg from "pg";

const LOOK_MS = 50;
const setting = JSON.parse(process.argv[2]);
const peer = await (await import(`./${setting.peer}.mjs`)).open(setting);

if (setting.role === "worker") serve();
else await lead();

/** Works when told to, and tells its parent when bodies began that ask for it. */
function serve() {
  let stop = () => {};
  process.on("message", async (told) => {
    if (told === "work") {
      let first_ms;
      const body = (data, at_ms = performance.timeOrigin + performance.now()) => {
        if (first_ms === undefined) process.send({ first_ms: first_ms = at_ms });
        if (data.number !== undefined) process.send({ number: data.number, at_ms });
      };
      stop = await peer.work({ concurrency: setting.concurrency, body });
    } else {
      await stop();
    }
    process.send({ done: told });
  });
  process.on("disconnect", () => process.exit());
}

async function lead() {
  await peer.prepare();
  const looking = typeof peer.left === "string" ? new pg.Client(setting.database_url) : undefined;
  await looking?.connect();
  await looking?.query("set enable_seqscan = off");
  const left = looking ? async () => (await looking.query(peer.left)).rows[0].left : peer.left;
  const argument = JSON.stringify({ ...setting, role: "worker" });
  const workers = Array.from({ length: setting.workers }, () => fork(process.argv[1], [argument]));
  const began = new Map();
  let first_ms;
  for (const worker of workers) {
    worker.on("message", (said) => {
      if (said.first_ms) first_ms = Math.min(first_ms ?? Infinity, said.first_ms);
      if (said.number !== undefined) began.set(said.number, said.at_ms);
    });
  }

  const commands = {
    pids: () => workers.map(({ pid }) => pid),
    enqueue: ({ jobs }) => peer.enqueue(jobs),
    work: () => all("work"),
    rest: () => all("stop"),
    /** Until nothing is left; from the first body's first line, in seconds. */
    async ended() {
      while (await left()) await sleep(LOOK_MS);
      const seconds = (performance.timeOrigin + performance.now() - first_ms) / 1000;
      first_ms = undefined;
      return seconds;
    },
    /** One at a time on an idle system: from before it is enqueued to its body's first line, in ms. */
    async pickup({ jobs, quiet_ms }) {
      const took = [];
      for (let number = 0; number < jobs; number++) {
        const asked_ms = performance.timeOrigin + performance.now();
        await peer.enqueueOne({ number });
        while (!began.has(number)) await sleep(5);
        took.push(began.get(number) - asked_ms);
        await sleep(quiet_ms * (1 + Math.random()));
      }
      began.clear();
      return took;
    },
    /** One every so often, whatever became of those before: from before it is enqueued to its body's first line, in ms. */
    async steady({ jobs, each_ms }) {
      const asked_ms = [];
      const asking = [];
      const from_ms = performance.now();
      for (let number = 0; number < jobs; number++) {
        const left_ms = from_ms + number * each_ms - performance.now();
        if (left_ms > 0) await sleep(left_ms);
        asked_ms.push(performance.timeOrigin + performance.now());
        asking.push(peer.enqueueOne({ number }));
      }
      await Promise.all(asking);
      while (began.size < jobs) await sleep(LOOK_MS);
      const took = asked_ms.map((at_ms, number) => began.get(number) - at_ms);
      began.clear();
      return took;
    },
    /** From when each was due to its body's first line, in ms. */
    async due({ at }) {
      for (const [number, due_ms] of at.entries()) await peer.enqueueOne({ number }, new Date(due_ms));
      while (began.size < at.length) await sleep(LOOK_MS);
      const late = at.map((due_ms, number) => began.get(number) - due_ms);
      began.clear();
      return late;
    },
  };

  async function all(told) {
    await Promise.all(workers.map((worker) =>
      new Promise((resolve, reject) => {
        const hear = (said) => {
          if (said.done !== told) return;
          worker.off("message", hear);
          resolve();
        };
        worker.on("message", hear);
        worker.once("exit", (code) => reject(new Error(`A worker of ${setting.peer} has ended with code ${code}`)));
        worker.send(told);
      })
    ));
  }

  for await (const line of createInterface({ input: process.stdin })) {
    const { command, ...more } = JSON.parse(line);
    const value = await commands[command](more);
    process.stdout.write(`${JSON.stringify({ value: value ?? null })}\n`);
  }
  for (const worker of workers) worker.kill("SIGKILL");
  process.exit();
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
