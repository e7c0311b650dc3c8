/** A history of steps in which all goes well, and what breaks each invariant of workflows in it, for checker_test.ts. */
import assert from "node:assert/strict";
import { sendMessage } from "../../src/steps/run_messages.ts";
import { commitSteps, type StepWrite } from "../../src/steps/run_steps.ts";
import { applyWakeChecks } from "../../src/steps/wakes.ts";
import { aDefinition } from "../support/factories.ts";
import type { Effect } from "./checker.ts";
import type { Breach } from "./checker_test.ts";
import type { StepEvidence } from "./steps_evidence.ts";
import { type Story, WORKER } from "./story.ts";

/** What happened to a run; each act is written down as the bodies of a chaos run do. */
class Journey {
  readonly steps: StepEvidence;
  body!: Effect;
  #line = 0;
  #place = 0;
  #seq = 0;

  constructor(readonly story: Story, readonly id: number) {
    this.steps = story.evidence.steps ??= { bodies: [], deliveries: [] };
    this.#line = 1_000 * id;
  }

  async start(): Promise<void> {
    this.body = await this.story.started(this.id);
    this.#place = 0;
  }

  async write(key: string, more: Partial<StepWrite> = {}): Promise<void> {
    const { job_run_id, attempt } = this.body;
    const kind = key.split(":")[0] as StepWrite["kind"];
    const write: StepWrite = {
      ...{ job_run_id, attempt, start_token: this.story.tokenOf(this.body), code_digest: "c0de", key, kind, tries: 1 },
      ...(more.state === "WAITING" ? {} : { seq: ++this.#seq }),
      state: "DONE",
      ...more,
    };
    assert.equal((await commitSteps(this.story.sql, WORKER, [write])).length, 1);
  }

  told(key: string, value: unknown): void {
    const { id: job_run_id, body: { fence, ended_ms } } = this;
    const at = { place: ++this.#place, line: ++this.#line, at_ms: ended_ms as number };
    this.steps.deliveries.push({ job_run_id, fence, key, outcome: "DONE", value, ...at });
  }

  did(key: string, value: unknown): void {
    const { id: job_run_id, body: { fence, started_ms, ended_ms } } = this;
    const body = { key, tries: 1, value, began_ms: started_ms, ended_ms: ended_ms as number };
    this.steps.bodies.push({ job_run_id, fence, line: ++this.#line, ...body });
  }

  /** A step from its begin until the code has it. */
  async step(name: string, value: unknown, more: Partial<StepWrite> = {}): Promise<void> {
    this.did(`step:${name}`, value);
    await this.write(`step:${name}`, { result: value as never, ...more });
    this.told(`step:${name}`, value);
  }

  async send(payload: string): Promise<number> {
    await this.story.sql`update job_definition set messages = '{"go": {}}'`;
    const sent = await sendMessage(this.story.sql, { job_run_id: this.id, name: "go", payload, sent_by: "somebody" });
    assert("id" in sent, JSON.stringify(sent));
    return sent.id;
  }

  /** Suspended for a message that comes then, and started again. */
  async wakeByMessage(): Promise<void> {
    await this.write("message:go", { state: "WAITING", waits_for: "go" });
    await this.story.suspended(this.body);
    const message_id = await this.send("hello");
    assert.equal((await applyWakeChecks(this.story.sql, this.story.term)).woken.length, 1);
    await this.start();
    for (const { key, value } of this.steps.deliveries.filter((one) => one.job_run_id === this.id)) {
      this.told(key, value);
    }
    await this.write("message:go", { result: "hello", message_id });
    this.told("message:go", "hello");
  }
}

/** Steps around a suspension, then a child and a bulk that came to something. */
export async function A_JOURNEY(story: Story): Promise<Journey> {
  const journey = new Journey(story, await story.created());
  await journey.start();
  await journey.step("first", { n: 1 });
  await journey.wakeByMessage();
  await journey.step("second", "two");
  await aCall(journey);
  await aBulk(journey);
  await story.ended(journey.body);
  return journey;
}

async function aCall(journey: Journey): Promise<void> {
  const { story: { sql }, id } = journey;
  const child = await journey.story.created();
  await sql`update job_run set parent_run_id = ${id}, parent_key = 'call:child' where id = ${child}`;
  await journey.story.ended(await journey.story.started(child));
  await sql`delete from wake_check`;
  await journey.write("call:child", { child_run_id: child });
  journey.told("call:child", null);
}

async function aBulk(journey: Journey): Promise<void> {
  const [bulk] = await journey.story.sql<{ id: number }[]>`
    insert into bulk (job_definition_id, parent_run_id, parent_key, state, finished_at, succeeded, failed, started_at)
    select id, ${journey.id}, 'bulk:child', 'FINISHED', clock_timestamp(), 0, 0, clock_timestamp() from job_definition returning id`;
  await journey.write("bulk:child", { child_bulk_id: bulk?.id as number });
  journey.told("bulk:child", [0, 0]);
}

/** Two steps with an undo, and a run that failed and undid them in this order. */
async function undone(story: Story, order: string[], ending = "FAILED"): Promise<void> {
  const journey = new Journey(story, await story.created());
  await journey.start();
  for (const name of ["hotel", "flight"]) await journey.step(name, name, { has_undo: true });
  for (const name of order) await journey.write(`undo:${name}`);
  await story.ended(journey.body, ending as "FAILED", 0);
  journey.body.retryable = false;
}

/** A run of the first job, and one of a job that comes after it. */
async function followed(
  story: Story,
  outcome: "SUCCEEDED" | "FAILED",
  spoil: (run: number) => Promise<unknown>,
): Promise<void> {
  const { sql } = story;
  const first = await story.created();
  await sql`update job_run set group_id = id where id = ${first}`;
  const body = await story.started(first);
  await story.ended(body, outcome, 0);
  body.retryable = false;
  const { id } = await aDefinition(sql, { name: "after", after_jobs: ["job"] });
  const second = await story.created();
  await sql`update job_run set source = 'after', group_id = ${first}, job_definition_id = ${id} where id = ${second}`;
  await story.ended(await story.started(second));
  await spoil(second);
}

/** Where the history itself refuses what no statement of ours does. */
async function unguarded<T>({ sql }: Story, act: () => Promise<T>): Promise<T> {
  await sql`alter table job_run disable trigger chaos_guard`;
  const done = await act();
  await sql`alter table job_run enable trigger chaos_guard`;
  return done;
}

const ofSteps = (
  breach: { what: string; broken: string[]; detail: RegExp },
  spoil: (journey: Journey) => unknown,
): Breach => ({ ...breach, spoil: async (story) => await spoil(await A_JOURNEY(story)) });

/** The body or the answer of this key, the last. */
const bodyOf = ({ steps }: Journey, key: string) =>
  steps.bodies.findLast((body) => body.key === key) ?? assert.fail(key);
const answerOf = ({ steps }: Journey, key: string) =>
  steps.deliveries.findLast((one) => one.key === key) ?? assert.fail(key);
/** From then on times count; all that bodies did lies before what the rows say. */
async function withClock({ story }: Journey): Promise<void> {
  const [row] = await story.sql<{ now: Date }[]>`select min(at) - interval '10 s' as now from job_run_event`;
  await story.sql`update job_run_event set due_at = '2000-01-01'`;
  story.evidence.clock = { zero: row?.now as Date, tolerance_ms: 5 };
}

const OF_BODIES: Breach[] = [
  ofSteps({ what: "a step is DONE that nobody did", broken: ["W1"], detail: /no body of it returned "two"/ }, (on) => {
    on.steps.bodies.pop();
  }),
  ofSteps(
    { what: "a step has a body after it is DONE", broken: ["W1"], detail: /had a body in attempt 2 after it/ },
    (on) => {
      const { line, ...first } = bodyOf(on, "step:first");
      on.steps.bodies.push({ ...first, fence: on.body.fence, line: line + 500, began_ms: 900, ended_ms: 901 });
    },
  ),
  ofSteps({ what: "two bodies of one step overlap", broken: ["W2"], detail: /began 3.0 ms before another/ }, (on) => {
    const body = bodyOf(on, "step:second");
    on.steps.bodies.push({ ...body, tries: 2, line: body.line - 0.5, ended_ms: body.began_ms + 3, value: "one" });
    on.steps.bodies.at(-1)!.line = body.line - 1;
  }),
  ofSteps({ what: "one try of a step has two bodies", broken: ["W2"], detail: /had 2 bodies in try 1/ }, (on) => {
    const body = bodyOf(on, "step:second");
    on.steps.bodies.push({ ...body, line: body.line - 1, began_ms: 0, ended_ms: 1, value: "one" });
  }),
  ofSteps(
    { what: "a step that is done once has two bodies", broken: ["W11"], detail: /done once and had 2 bodies/ },
    (on) => {
      const body = bodyOf(on, "step:second");
      body.once = true;
      on.steps.bodies.push({ ...body, tries: 2, line: body.line - 1, began_ms: 0, ended_ms: 1, value: "one" });
    },
  ),
  ofSteps({
    what: "a step begins before the replay has ended",
    broken: ["W5"],
    detail: /"step:second" began .* before "step:first"/,
  }, (on) => {
    bodyOf(on, "step:second").line = 0;
  }),
];

const OF_ANSWERS: Breach[] = [
  ofSteps(
    { what: "a run of steady code diverges", broken: ["W3"], detail: /it ended Diverged: it asks for another/ },
    (on) =>
      unguarded(on.story, async () =>
        await on.story.sql`
          update job_run set error_name = 'Diverged', error_summary = 'it asks for another' where id = ${on.id}`),
  ),
  ofSteps({
    what: "code is told something else the second time",
    broken: ["W3"],
    detail: /number 1 was told in 2 ways/,
  }, (on) => {
    answerOf(on, "step:first").value = { n: 2 };
  }),
  ofSteps({ what: "code is told what is not recorded", broken: ["W3"], detail: /its journal has nothing/ }, (on) => {
    on.told("step:third", 3);
  }),
  ofSteps({
    what: "code is told in another order",
    broken: ["W3"],
    detail: /was told "step:second".* its journal has "message:go"/,
  }, (on) => {
    const [go, second] = [answerOf(on, "message:go"), answerOf(on, "step:second")];
    [go.place, second.place] = [second.place, go.place];
  }),
  ofSteps(
    { what: "an answer is left out", broken: ["W3"], detail: /was told 4 answers, the last as number 5/ },
    (on) => {
      on.steps.deliveries.splice(on.steps.deliveries.indexOf(answerOf(on, "message:go")), 1);
    },
  ),
  ofSteps(
    { what: "an attempt that never ran writes a row", broken: ["W4"], detail: /attempt 9, which never ran/ },
    (on) => on.story.sql`update run_step set attempt = 9 where kind = 'message'`,
  ),
  ofSteps({
    what: "a row is written after the run was suspended",
    broken: ["W4"],
    detail: /by attempt 1 after the run had become SUSPENDED/,
  }, (on) => on.story.sql`update run_step set attempt = 1 where kind = 'message'`),
  ofSteps({
    what: "a body is told something after its suspension",
    broken: ["W6"],
    detail: /SUSPENDED, and \d+ ms later its attempt 1 was told/,
  }, async (on) => {
    await withClock(on);
    on.steps.deliveries[0]!.at_ms = 20_000;
  }),
];

const OF_WAITS: Breach[] = [
  ofSteps({
    what: "a run sleeps on though its message is there",
    broken: ["W7"],
    detail: /"message:go" had what it waited for, and the run started \d+ ms later/,
  }, async (on) => {
    await withClock(on);
    Object.assign(on.steps, { healed_ms: 0, wake_within_ms: 0 });
  }),
  ofSteps(
    { what: "nobody acts on what has come", broken: ["I4", "W7"], detail: /a check of it is left/ },
    async (on) => {
      const id = await on.story.created();
      await on.story.sql`insert into wake_check (job_run_id) values (${id})`;
    },
  ),
  ofSteps(
    { what: "one message is taken by no wait", broken: ["W8"], detail: /is DONE and took 0 messages/ },
    (on) => on.story.sql`update run_message set taken_by = null`,
  ),
  ofSteps(
    { what: "a later message goes first", broken: ["W8"], detail: /message 1 was passed over for 2/ },
    async (on) => {
      const { sql } = on.story;
      await sql`insert into run_message (job_run_id, name, sent_by, taken_by) select job_run_id, name, sent_by, taken_by from run_message`;
      await sql`update run_message set taken_by = null where id = 1`;
    },
  ),
  ofSteps(
    {
      what: "a child belongs to somebody else",
      broken: ["W9"],
      detail: /"call:child" is DONE by run \d+, .* for "call:other"/,
    },
    (on) =>
      unguarded(
        on.story,
        async () => await on.story.sql`update job_run set parent_key = 'call:other' where parent_key is not null`,
      ),
  ),
  ofSteps({
    what: "code is told another result than its child had",
    broken: ["W9"],
    detail: /was told \{"fine": false\}/,
  }, (on) => {
    answerOf(on, "call:child").value = { fine: false };
  }),
  ofSteps(
    { what: "two children are made for one step", broken: ["W9"], detail: /"call:child" has 2 children/ },
    async (on) => {
      const other = await on.story.created();
      await on.story.ended(await on.story.started(other));
      await unguarded(
        on.story,
        async () =>
          await on.story
            .sql`update job_run set parent_run_id = ${on.id}, parent_key = 'call:child' where id = ${other}`,
      );
    },
  ),
  ofSteps({
    what: "a child goes on that nobody awaits",
    broken: ["I4", "W9"],
    detail: /has ended, and run \d+, which it awaited, is PENDING/,
  }, async (on) => {
    const other = await on.story.created();
    await on.story.sql`update job_run set parent_run_id = ${on.id}, parent_key = 'call:late' where id = ${other}`;
  }),
  ofSteps({
    what: "code is told that more of a bulk succeeded than did",
    broken: ["W10"],
    detail: /was told \[7, 0\], and bulk/,
  }, (on) => {
    answerOf(on, "bulk:child").value = [7, 0];
  }),
  ofSteps(
    { what: "one call makes two bulks", broken: ["W10"], detail: /"bulk:child" has 2 bulks/ },
    (on) =>
      on.story
        .sql`insert into bulk (job_definition_id, parent_run_id, parent_key, state, finished_at, succeeded, failed, started_at)
      select job_definition_id, parent_run_id, parent_key, state, finished_at, succeeded, failed, started_at from bulk`,
  ),
  ofSteps(
    { what: "a run has executions without a cause", broken: ["W14"], detail: /2 attempts, 0 suspensions/ },
    (on) => unguarded(on.story, async () => await on.story.sql`update job_run set suspensions = 0 where id = ${on.id}`),
  ),
];

const OF_ENDS: Breach[] = [
  {
    what: "a step is not undone",
    broken: ["W12"],
    detail: /"step:hotel" has an undo.*is not there/,
    spoil: (story) => undone(story, ["flight"]),
  },
  {
    what: "a step of a run that succeeded is undone",
    broken: ["W12"],
    detail: /the run ended SUCCEEDED, and the undo is DONE/,
    spoil: (story) => undone(story, ["flight", "hotel"], "SUCCEEDED"),
  },
  {
    what: "steps are undone in their own order",
    broken: ["W12"],
    detail: /"step:hotel" was undone before what came after it/,
    spoil: (story) => undone(story, ["hotel", "flight"]),
  },
  {
    what: "a run comes after one that had not ended",
    broken: ["W13"],
    detail: /made before all that it comes after had ended/,
    spoil: (story) =>
      followed(
        story,
        "SUCCEEDED",
        (run) =>
          unguarded(story, async () => await story.sql`update job_run set created_at = '2020-01-01' where id = ${run}`),
      ),
  },
  {
    what: "a run comes after one that failed",
    broken: ["W13"],
    detail: /it is SUCCEEDED, and what it comes after has not all succeeded/,
    spoil: (story) => followed(story, "FAILED", () => Promise.resolve()),
  },
  {
    what: "nothing comes after a run",
    broken: ["W13"],
    detail: /nothing of "after" came after it/,
    spoil: (story) =>
      followed(
        story,
        "SUCCEEDED",
        (run) =>
          unguarded(story, async () =>
            await story.sql`update job_run set group_id = null, source = 'enqueue' where id = ${run}`),
      ),
  },
];

export const OF_STEPS: Breach[] = [...OF_BODIES, ...OF_ANSWERS, ...OF_WAITS, ...OF_ENDS];
