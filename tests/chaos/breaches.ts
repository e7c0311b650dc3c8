/** Histories of limits, events, bulks and leaders that break an invariant each, for checker_test.ts. */
import assert from "node:assert/strict";
import { addItems, createBulk } from "../../src/bulks/bulks.ts";
import { emitEvent, takeEvents } from "../../src/events/events.ts";
import { feed, finish } from "../../src/bulks/bulk_dispatch.ts";
import { buryWorkers } from "../../src/nodes/workers.ts";
import { aWorker } from "../support/factories.ts";
import type { Effect } from "./checker.ts";
import type { Breach } from "./checker_test.ts";
import type { Story } from "./story.ts";

/** A run that was done well in one attempt. */
export async function done(story: Story, columns?: { serial_key?: string }): Promise<Effect> {
  const body = await story.started(await story.created(columns));
  await story.ended(body);
  return body;
}

async function aBulk(story: Story, { items = 0, serial_key }: { items?: number; serial_key?: string } = {}) {
  const bulk = { job_name: "job", name: "", parallel: 1, interval_seconds: 0, serial_key, actor: "somebody" };
  const made = await createBulk(story.sql, bulk) as { bulk_id: number };
  await addItems(story.sql, made.bulk_id, { first_seq: 1, texts: Array.from({ length: items }, () => "{}") });
  return made.bulk_id;
}

async function fed(story: Story, bulk_id: number, items: number): Promise<number[]> {
  await feed(story.sql, story.term, [{ bulk_id, next_seq: 1, items }]);
  const runs = await story.sql<{ id: number; idempotency_key: string }[]>`
    select id, idempotency_key from job_run where bulk_id = ${bulk_id} order by id`;
  story.evidence.new_runs.push(...runs.map((run) => run.idempotency_key));
  return runs.map((run) => run.id);
}

export const OF_LIMITS: Breach[] = [
  {
    what: "more runs of a limit key are active than may be",
    broken: ["limits"],
    detail: /became ASSIGNED as number 2 of "1:", of which 1 may be/,
    async spoil(story) {
      await story.sql`update job_definition set concurrency_limit = 1, concurrency_key = '{tenant}'`;
      const bodies = [await story.started(await story.created()), await story.started(await story.created())];
      for (const body of bodies) await story.ended(body);
    },
  },
  {
    what: "more of a resource is in use than there is",
    broken: ["resources"],
    detail: /became ASSIGNED when 4 of "license" were in use, of which there are 3/,
    async spoil(story) {
      await story.sql`insert into resource (name, capacity) values ('license', 3)`;
      await story.sql`update job_definition set resources = '{"license": 2}'`;
      const bodies = [await story.started(await story.created()), await story.started(await story.created())];
      for (const body of bodies) await story.ended(body);
    },
  },
  {
    what: "runs are given away faster than the rate of their job",
    broken: ["rates"],
    detail: /became ASSIGNED \d+\.\d ms before the rate of "job" allowed it/,
    async spoil(story) {
      await story.sql`update job_definition set rate_count = 1, rate_seconds = 3600`;
      const bodies = [await story.started(await story.created()), await story.started(await story.created())];
      for (const body of bodies) await story.ended(body);
    },
  },
  {
    what: "more runs on a node than may be",
    broken: ["nodes"],
    detail: /became ASSIGNED as number 2 on node here, where 1 may be/,
    async spoil(story) {
      await story.sql`update node set max_concurrent = 1`;
      const bodies = [await story.started(await story.created()), await story.started(await story.created())];
      for (const body of bodies) await story.ended(body);
    },
  },
];

/** Two events of one key, each in a batch of its own, and what the rule made of them; `spoil` comes before their runs do. */
async function ofRule(
  story: Story,
  rule: { debounce_seconds: number } | { throttle_seconds: number },
  spoil: () => Promise<unknown> = () => Promise.resolve(),
) {
  const rules = { seen: { ...rule, key: "{who}" } };
  await story.sql`update job_definition set event_types = '{seen}', event_rules = ${story.sql.json(rules)}`;
  for (const n of [1, 2]) {
    await emitEvent(story.sql, { event_type: "seen", payload: { who: "a", n } });
    await takeEvents(story.sql, story.term);
  }
  await spoil();
  const runs = await story.sql<{ id: number }[]>`update job_run set due_at = clock_timestamp() returning id`;
  for (const { id } of runs) await story.ended(await story.started(id));
}

export const OF_EVENTS: Breach[] = [
  {
    what: "of an event that another took the place of nothing is told",
    broken: ["ruled events"],
    detail: /event 1 has 0 runs of "job" and is 0 times told as absorbed/,
    async spoil(story) {
      await ofRule(story, { debounce_seconds: 60 });
      await story.sql`delete from event_suppressed`;
    },
  },
  {
    what: "in the place of a debounced event an earlier one is told",
    broken: ["ruled events"],
    detail: /event 2 was debounced, and its run is that of event 1/,
    async spoil(story) {
      await ofRule(story, { throttle_seconds: 60 });
      await story.sql`update event_suppressed set outcome = 'debounced'`;
    },
  },
  {
    what: "a run has the payload of an earlier event than its own",
    broken: ["ruled events"],
    detail: /it is for event 2 and has args {"n": 1, "who": "a"}, not {"n": 2, "who": "a"}/,
    spoil: (story) =>
      ofRule(story, { debounce_seconds: 60 }, () => story.sql`update job_run set args_json = '{"who": "a", "n": 1}'`),
  },
  {
    what: "two runs of a throttled key are born too soon after each other",
    broken: ["ruled events"],
    detail: /it was born \d+ ms after another of "seen:a"/,
    async spoil(story) {
      await ofRule(story, { throttle_seconds: 0 });
      const rules = { seen: { throttle_seconds: 60, key: "{who}" } };
      await story.sql`update job_definition set event_rules = ${story.sql.json(rules)}`;
    },
  },
];

export const OF_BULKS: Breach[] = [
  {
    what: "a bulk does not end",
    broken: ["bulks"],
    detail: /bulk \d+ is still RUNNING/,
    spoil: aBulk,
  },
  {
    what: "an item of a bulk was passed over",
    broken: ["bulks"],
    detail: /item 2 of bulk \d+ has no run/,
    async spoil(story) {
      const id = await aBulk(story, { items: 2 });
      for (const run of await fed(story, id, 1)) await story.ended(await story.started(run));
      await story.sql`update bulk set next_seq = 3 where id = ${id}`;
      await finish(story.sql, story.term, id);
    },
  },
  {
    what: "a bulk counts other ends than its runs had",
    broken: ["bulks"],
    detail: /says 1 succeeded and 0 failed, its runs say 0 and 1/,
    async spoil(story) {
      const id = await aBulk(story, { items: 1 });
      for (const run of await fed(story, id, 1)) await story.ended(await story.started(run), "FAILED", 0);
      story.evidence.effects.forEach((body) => body.retryable = false);
      await finish(story.sql, story.term, id);
      await story.sql`update bulk set succeeded = 1, failed = 0`;
    },
  },
  {
    what: "more runs of a bulk at once than may be",
    broken: ["parallel"],
    detail: /became ASSIGNED as number 2 of bulk \d+, of which 1 may be/,
    async spoil(story) {
      const id = await aBulk(story, { items: 2 });
      const bodies = [];
      for (const run of await fed(story, id, 2)) bodies.push(await story.started(run));
      for (const body of bodies) await story.ended(body);
      await finish(story.sql, story.term, id);
    },
  },
  {
    what: "two bulks of one serial key at once",
    broken: ["bulks in line"],
    detail: /bulk \d+ began before bulk \d+ of "k" had ended/,
    async spoil(story) {
      const [first, second] = [await aBulk(story, { serial_key: "k" }), await aBulk(story, { serial_key: "k" })];
      await story.sql`update bulk set started_at = clock_timestamp() where id = ${second}`;
      for (const id of [first, second]) await finish(story.sql, story.term, id);
    },
  },
];

export const OF_LEADERS: Breach[] = [
  {
    what: "a leader writes after its term",
    broken: ["I7"],
    detail: /became ASSIGNED under epoch 1 when the term was 2/,
    spoil: async (story) => (await done(story), await story.sql`update job_run_event set term_epoch = 2`),
  },
  {
    what: "somebody else gets the seat under the same epoch",
    broken: ["terms"],
    detail: /epoch 1 of w1-0000000a became 1 of w2/,
    spoil: (story) => story.sql`update leader_term set worker_id = 'w2'`,
  },
  {
    what: "a new leader buries at once",
    broken: ["burials"],
    detail: /was buried \d+ ms after the leader had got its term/,
    async spoil(story) {
      await aWorker(story.sql, { worker_id: "w2", lease_ms: -1 });
      assert.deepEqual(await buryWorkers(story.sql, story.term), ["w2"]);
    },
  },
  {
    what: "a leader buries after it was cut off itself",
    broken: ["burials"],
    detail: /after the leader had not reached Postgres for 60000 ms/,
    async spoil(story) {
      await aWorker(story.sql, { worker_id: "w2", lease_ms: -1 });
      await story.sql`update leader_term_event set at = at - interval '60 s'`;
      await story.sql`insert into leader_term_event (epoch, old_epoch, worker_id, old_worker_id, lease_until, at)
        select epoch, epoch, worker_id, worker_id, lease_until, at + interval '60 s' from leader_term_event`;
      await buryWorkers(story.sql, story.term);
    },
  },
  {
    what: "a process of a body is left",
    broken: ["I18"],
    detail: /4711 deno/,
    spoil: (story) => Promise.resolve(story.evidence.left_behind = ["4711 deno"]),
  },
];
