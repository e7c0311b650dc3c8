/** What the engine writes into rows is said in each language: the messages here come from where they are made. */
import assert from "node:assert/strict";
import { saidText } from "../../../src/locale/locale.ts";
import { stored } from "../../../src/locale/message.ts";
import { type BodyHistory, type EndedByUs, outcomeOf, type OutcomeSubject } from "../../../src/sandbox/outcome.ts";
import { runScripts } from "../../../src/sandbox/check_scripts.ts";
import { acquire } from "../../../src/nodes/leadership.ts";
import { skipForbidden } from "../../../src/runs/concurrency_policy.ts";
import { giveBack, orphanLost, quarantine } from "../../../src/runs/lost_runs.ts";
import { cancelRequested, endPastDeadline, forceClose, skipLate } from "../../../src/runs/states.ts";
import { requestCancel } from "../../../src/runs/requests.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const JA = { lang: "ja" } as const;
const SUBJECT: OutcomeSubject = { job_name: "j", timeout_ms: 2_500, memory_mb: 64, permissions: {}, project_dir: "/p" };
const END: BodyHistory["end"] = {
  code: 1,
  signal: null,
  was_ready: true,
  last_words: "",
  left_others: false,
  heard: true,
  unguarded: undefined,
};
const STORY: BodyHistory = {
  ended_by_us: undefined,
  verdict: undefined,
  exiting: undefined,
  started: true,
  lapsed: false,
  end: END,
};

function endedBy(cause: EndedByUs["cause"], step: EndedByUs["step"], more: Partial<BodyHistory> = {}): BodyHistory {
  return { ...STORY, ended_by_us: { cause, reason: stored("reason.page"), step }, ...more };
}

const thrown = { kind: "error", error: { name: "E", message: "e", stack: "" } } as unknown as BodyHistory["verdict"];

Deno.test("how a body ended is said in Japanese, and what it said itself stays", () => {
  const stories: BodyHistory[] = [
    endedBy("timeout", "TERM"),
    endedBy("timeout", "KILL", { started: false }),
    endedBy("timeout", "TERM", { end: { ...END, left_others: true } }),
    endedBy("cancel", "signal"),
    endedBy("cancel", "signal", { verdict: thrown }),
    endedBy("flood", "KILL"),
    endedBy("abandon", "KILL"),
    { ...STORY, lapsed: true, end: { ...END, signal: "SIGKILL" } },
    { ...STORY, end: { ...END, unguarded: new Error("X") } },
    { ...STORY, end: { ...END, last_words: "out of memory" } },
    { ...STORY, end: { ...END, signal: "SIGKILL" } },
    { ...STORY, end: { ...END, signal: "SIGTERM" } },
    { ...STORY, exiting: 3 },
    { ...STORY, exiting: 3, end: { ...END, was_ready: false } },
    { ...STORY, end: { ...END, was_ready: false } },
    STORY,
  ];
  for (const story of stories) {
    const outcome = outcomeOf(story, SUBJECT);
    assert("error_summary" in outcome);
    japanese(outcome.error_summary);
  }
  const crashed = outcomeOf({ ...STORY, end: { ...END, last_words: "its own words" } }, SUBJECT);
  assert("error_summary" in crashed);
  assert.match(saidText(JA, crashed.error_summary), /終了コード 1 で終了しました\nits own words$/);
  assert.equal(saidText(JA, "what a body threw"), "what a body threw");
  assert.equal(saidText({ lang: "en" }, stored("runs.cause.worker_dead")), "its worker is dead");
  for (const reason of ["reason.page", "reason.command_line", "reason.api"] as const) japanese(stored(reason));
});

Deno.test("what the check of a node says of its scripts is said in Japanese, and what they say stays", async () => {
  const dir = await Deno.makeTempDir();
  const script = (name: string, text: string) => Deno.writeTextFile(`${dir}/${name}`, text, { mode: 0o755 });
  await script("code", "#!/bin/sh\nexit 3\n");
  await script("killed", "#!/bin/sh\nkill -9 $$\n");
  await script("late", "#!/bin/sh\nsleep 60\n");
  await script("broken", "#!/no/such/program\n");
  await script("says", "#!/bin/sh\necho its own words\nexit 1\n");
  try {
    const ends = new Map((await runScripts(dir, 2_000)).map(({ name, message }) => [name, message]));
    for (const name of ["code", "killed", "late"]) japanese(ends.get(name) ?? "");
    assert.match(saidText(JA, ends.get("broken") ?? ""), /^実行できません：/);
    assert.equal(saidText(JA, ends.get("says") ?? ""), "its own words");
    for (let n = 0; n < 100; n++) await script(`more_${n}`, "");
    for (const folder of [dir, `${dir}/none`]) {
      const [end] = await runScripts(folder, 2_000);
      japanese((end?.message ?? "").replaceAll(folder, "X"));
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("how a run ended without a body is said in Japanese", () =>
  withStores(async ({ sql }) => {
    const term = await acquire(sql, { worker_id: (await aWorker(sql)).worker_id, lease_ms: 60_000, epoch_hint: 0 });
    assert(term);
    const by = { actor: "user:ann", reason: stored("reason.command_line") };
    const slot = { source: "schedule", due_at: new Date(0), scheduled_for: new Date(0) };
    const forbid = async (concurrency_policy: string) => {
      const { id } = await aDefinition(sql, { concurrency_policy });
      const of = { ...slot, job_definition_id: id, serial_key: concurrency_policy };
      await aRun(sql, of);
      await aRun(sql, { ...of, due_at: new Date(1), scheduled_for: new Date(1) });
    };
    await forbid("forbid");
    await forbid("queue_one");
    await skipForbidden(sql, term);
    await skipLate(sql, term, 60);
    await aRun(sql, { state: "ORPHANED", interruptions: 9 });
    await quarantine(sql, term);
    await requestCancel(sql, (await aRun(sql)).id, by);
    await cancelRequested(sql, term);
    await aRun(sql, { state: "SUSPENDED", deadline_at: new Date(0) });
    await endPastDeadline(sql, term);
    await forceClose(sql, (await aRun(sql)).id, by);
    const { worker_id } = await aWorker(sql);
    for (const cause of [stored("runs.cause.no_body"), stored("runs.cause.worker_draining")]) {
      const { id: job_run_id, attempt } = await aRun(sql, { state: "ASSIGNED", assigned_worker_id: worker_id });
      await giveBack(sql, worker_id, [{ job_run_id, attempt, from: "ASSIGNED", outcome: "GIVEN_BACK", cause }]);
    }
    await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id });
    await sql`update worker set state = 'DEAD' where worker_id = ${worker_id}`;
    await orphanLost(sql, term);
    const said = await sql<{ error_summary: string }[]>`
      select distinct error_summary from (select error_summary from job_run union all select error_summary from job_run_attempt) s
       where error_summary is not null`;
    assert.equal(said.length, 10, said.map((one) => one.error_summary).join("\n"));
    for (const { error_summary } of said) japanese(error_summary);
  }));

/** But for names, and words of the job file. */
function japanese(sentence: string): void {
  const text = saidText(JA, sentence);
  assert.match(text, /[ぁ-んァ-ヶ一-龠]/, text);
  const names = /user:ann|max_interruptions|concurrency|forbid|queueOne|memoryMb|run\(\)|return|throw|signal|Dandori/g;
  assert.doesNotMatch(text.replaceAll(names, ""), /[a-z]{3,}/, text);
}
