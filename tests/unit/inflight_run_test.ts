/** The states of a run in flight: which moves there are. */
import assert from "node:assert/strict";
import type { Body } from "../../src/sandbox/process_pool.ts";
import { bodyOf, type InflightRun, isHeld, move, newInflightRun, type Stage } from "../../src/worker/inflight_run.ts";

const BODY = {} as Body;
const STAGES: Stage[] = [
  { at: "received" },
  { at: "starting" },
  { at: "running", body: BODY },
  { at: "recording", lost: false },
  { at: "done" },
];
const ALLOWED = [
  "received starting",
  "received done",
  "starting running",
  "starting done",
  "running recording",
  "recording done",
];

function at(stage: Stage): InflightRun {
  return { ...newInflightRun({ job_run_id: 7, attempt: 1, command_name: "a.ts", digest: "d" }), stage };
}

Deno.test("a run in flight moves as the table says and no other way, and has a body only while it runs", () => {
  for (const from of STAGES) {
    for (const to of STAGES) {
      const inflight = at(from);
      if (ALLOWED.includes(`${from.at} ${to.at}`)) {
        move(inflight, to);
        assert.equal(inflight.stage, to);
        assert.equal(bodyOf(inflight), to.at === "running" ? BODY : undefined);
      } else {
        assert.throws(() => move(inflight, to), {
          message: `Cannot move run "7" in flight from ${from.at} to ${to.at}`,
        });
        assert.equal(inflight.stage, from);
      }
    }
  }
  const held = [...STAGES, { at: "recording" as const, lost: true }].filter((stage) => isHeld(at(stage)));
  assert.deepEqual(held.map((stage) => stage.at), ["running", "recording"]);
});
