/** What the engine says reaches pages in Japanese without a word of English, in the viewer's zone, and leads to what it is about. */
import assert from "node:assert/strict";
import { z } from "zod";
import { clockText } from "../../../src/admin/pages/jobs/clock_text.ts";
import { complaintsText } from "../../../src/admin/parts/complaint_text.ts";
import { partNameText, partText } from "../../../src/admin/parts/part_text.ts";
import { problemText } from "../../../src/admin/pages/settings/problem_text.ts";
import { waitText } from "../../../src/locale/wait_text.ts";
import { message, stored } from "../../../src/locale/message.ts";
import { partName } from "../../../src/nodes/check_part.ts";
import { refusalText } from "../../../src/admin/refusals.ts";
import type { RequestContext } from "../../../src/admin/request_context.ts";
import type { Says } from "../../../src/job_options/complaint.ts";
import { previewWarnings } from "../../../src/schedules/calendar.ts";
import { type RefusalCode, Refused } from "../../../src/actions/args.ts";
import { judge } from "../../../src/leader/node_checks.ts";
import { ALERT_KINDS } from "../../../src/alerts/alerts.ts";
import { json } from "../../../src/postgres/connection.ts";
import { t } from "../../../src/locale/locale.ts";
import { DEFAULT_SETTINGS, problemsIn } from "../../../src/settings/settings.ts";
import { type Wait, type WaitCode, whereOf } from "../../../src/runs/wait_reason.ts";
import { withAdmin } from "../../support/admin.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { aFullHouse } from "../../support/full_house.ts";

const AT = "2026-11-22T00:00:00Z";
const ON = { lang: "ja", zone: "Asia/Tokyo" } as RequestContext;

/** One of each code: a code without a line here does not compile. */
const WAITS: { [Code in WaitCode]: Wait<Code> } = {
  dispatch_paused: { code: "dispatch_paused", params: {} },
  job_removed: { code: "job_removed", params: { job_name: "J" } },
  job_paused: { code: "job_paused", params: { job_name: "J", by: "W", reason: "R" } },
  job_limit: { code: "job_limit", params: { job_name: "J", running: 2, limit: 2 } },
  rate: { code: "rate", params: { job_name: "J", count: 60, seconds: 1 } },
  resource_unknown: { code: "resource_unknown", params: { resource: "R" } },
  resource_short: { code: "resource_short", params: { resource: "R", needed: 2, free: 1, capacity: 3 } },
  nobody_there: { code: "nobody_there", params: { where: whereOf("N") } },
  maintenance: { code: "maintenance", params: { nodes: ["N"], by: "W", reason: "R" } },
  unavailable: { code: "unavailable", params: { nodes: ["N"], problems: ["P"] } },
  busy: { code: "busy", params: { nodes: ["N"], problems: ["P"] } },
  none_takes_work: { code: "none_takes_work", params: { where: null } },
  node_full: { code: "node_full", params: { node: "N", load: 3, limit: 3 } },
  no_slot: { code: "no_slot", params: { where: whereOf("G=A") } },
  no_code: {
    code: "no_code",
    params: { job_name: "J", version: "0123", where: null, having: 0, only_leader: false, others: [] },
  },
  canceling: { code: "canceling", params: { by: "W" } },
  retry_at: { code: "retry_at", params: { at: AT } },
  due_at: { code: "due_at", params: { at: AT } },
  suspended: {
    code: "suspended",
    params: { waits: [message("runs.suspended_for", { kind: "message", name: "M", until: AT })], more: 2 },
  },
  no_worker: { code: "no_worker", params: {} },
  no_leader: { code: "no_leader", params: {} },
  key_stopped: { code: "key_stopped", params: { serial_key: "K", by: "W", reason: null } },
  behind_run: { code: "behind_run", params: { run_id: 811, serial_key: "K" } },
  key_limit: { code: "key_limit", params: { key: "K", running: 1, limit: 1 } },
  bulk_paused: { code: "bulk_paused", params: { bulk_id: 7, by: "W", reason: null } },
  bulk_canceled: { code: "bulk_canceled", params: { bulk_id: 7 } },
  bulk_full: { code: "bulk_full", params: { bulk_id: 7, running: 8, limit: 8 } },
  other_node: { code: "other_node", params: { node: "N" } },
  next: { code: "next", params: {} },
  bulk_ending: { code: "bulk_ending", params: {} },
  behind_bulk: { code: "behind_bulk", params: { bulk_id: 7, serial_key: "K" } },
  interval: { code: "interval", params: { at: AT } },
};

/** As those are: what can be refused has words, or it does not compile. */
const REFUSALS: { [Code in RefusalCode["code"]]: Extract<RefusalCode, { code: Code }> } = {
  none: { code: "none", what: "X" },
  nobody_leads: { code: "nobody_leads" },
  steps_down: { code: "steps_down" },
  node_lives: { code: "node_lives", worker_id: "w7" },
  node_carries: { code: "node_carries", job_run_id: 812 },
  no_such_worker: { code: "no_such_worker", name: "W", state: "active" },
  not_detachable: { code: "not_detachable", name: "W" },
  taken: { code: "taken", name: "H" },
  hook_name: { code: "hook_name" },
  user_disabled: { code: "user_disabled", name: "太郎" },
  user_enabled: { code: "user_enabled", name: "太郎" },
  last_admin: { code: "last_admin", name: "太郎" },
  length: { code: "length", option: "T", least: 1, most: 200 },
  whole_number: { code: "whole_number", option: "R", least: 1, most: 9 },
  run_ended: { code: "run_ended", state: "FAILED" },
  no_followers: { code: "no_followers", job_name: "J" },
  run_goes_on: { code: "run_goes_on", state: "RUNNING" },
  job_gone: { code: "job_gone", job_name: "J" },
  args_unfit: {
    code: "args_unfit",
    item: 3,
    found: z.object({ n: z.number() }).safeParse({ n: "x" }, { reportInput: true }).error?.issues ?? [],
  },
  no_such_message: { code: "no_such_message", job_name: "J", names: ["M"] },
  message_unfit: {
    code: "message_unfit",
    found: z.object({ n: z.number() }).safeParse({ n: "x" }, { reportInput: true }).error?.issues ?? [],
  },
  not_yours_to_answer: { code: "not_yours_to_answer", who: "M" },
  asks_others: { code: "asks_others", who: "M" },
  fork_refused: { code: "fork_refused", text: "T" },
  no_such_wait: { code: "no_such_wait", names: [] },
  wait_not_by_time: { code: "wait_not_by_time", key: "K" },
  unread_full: { code: "unread_full", most: 1000 },
  message_not_for_emit: { code: "message_not_for_emit", name: "M" },
  too_large: { code: "too_large", bytes: 9, most: 8 },
  too_deep: { code: "too_deep", most: 100 },
  unstorable: { code: "unstorable" },
  too_many_slots: { code: "too_many_slots", most: 9 },
  range_empty: { code: "range_empty" },
  range_to_come: { code: "range_to_come" },
  which_schedule: { code: "which_schedule", names: ["J"] },
  leader_silent: { code: "leader_silent" },
  capacity_zero: { code: "capacity_zero", name: "R" },
  waits_not: { code: "waits_not", state: "FAILED" },
  bulk_over: { code: "bulk_over", bulk_id: 7, state: "CANCELED" },
  query_failed: { code: "query_failed", text: "X" },
  next_is_itself: { code: "next_is_itself", option: "F" },
  number: { code: "number", option: "N", least: 1, most: 9 },
  share: { code: "share", option: "S" },
  choice: { code: "choice", option: "C", words: ["A"] },
  priority: { code: "priority" },
  date: { code: "date", option: "D" },
  no_event_type: { code: "no_event_type" },
  key_of_other: { code: "key_of_other" },
  options: {
    code: "options",
    complaints: [{ key: "K", reason: "is not what the test wants", fix: "give it", says: { code: "truth" } }],
  },
  nowhere: { code: "nowhere", selector: "G=A", known: ["N"], more: 2 },
  resource_unknown: { code: "resource_unknown", resource: "R", needed: 2 },
  resource_short: { code: "resource_short", resource: "R", needed: 2, capacity: 1 },
  misuse: { code: "misuse" },
  forbidden: { code: "forbidden", needs: "R" },
  reason_needed: { code: "reason_needed" },
  too_many_tries: { code: "too_many_tries" },
  settings_conflict: { code: "settings_conflict", text: "X" },
  nothing_failed: { code: "nothing_failed", bulk_id: 7 },
  input_unfit: {
    code: "input_unfit",
    found: z.object({ n: z.number() }).safeParse({ n: "x" }, { reportInput: true }).error?.issues ?? [],
  },
};

const COMPLAINTS: { [Code in Says["code"]]: Extract<Says, { code: Code }> } = {
  number: { code: "number", least: 1, most: 9, whole: true },
  choice: { code: "choice", words: ["A"] },
  text: { code: "text", most: 9 },
  time_of_day: { code: "time_of_day" },
  day_of_month: { code: "day_of_month" },
  cron: { code: "cron", wrong: { what: "field", field: "hour", text: "25" } },
  zone: { code: "zone", like: undefined },
  never: { code: "never" },
  no_value: { code: "no_value" },
  truth: { code: "truth" },
  object: { code: "object" },
  unknown: { code: "unknown", words: ["A"] },
  missing: { code: "missing" },
  priority: { code: "priority" },
  braces: { code: "braces" },
  rate: { code: "rate" },
  one_kind: { code: "one_kind", words: ["A"] },
  jitter: { code: "jitter", most: 59 },
  days: { code: "days", wrong: "mixed" },
  no_schedule: { code: "no_schedule", ids: ["A"] },
  not_set: { code: "not_set" },
  file_removed: { code: "file_removed" },
  nowhere: { code: "nowhere", selector: "N", known: [], more: 0 },
  resource_unknown: { code: "resource_unknown", resource: "R", needed: 2 },
  resource_short: { code: "resource_short", resource: "R", needed: 2, capacity: 1 },
};

Deno.test("each reason to wait is said in Japanese, times on the viewer's wall, and one that is not known as it came", () => {
  for (const waits of Object.values(WAITS)) japanese(waitText(ON, waits));
  assert.match(waitText(ON, WAITS.due_at), /2026-11-22 09:00:00/);
  assert.match(waitText({ ...ON, lang: "en" }, WAITS.due_at), /due at 2026-11-22 09:00:00/);
  const free = stored("nodes.check.free", { mb: 5 });
  const problems = [
    message("nodes.problem.of_node", {
      node: "A",
      problem: stored("nodes.problem.part", { part: partName("disk"), found: [free] }),
    }),
    message("nodes.problem.of_node", { node: "B", problem: message("nodes.problem.unchecked") }),
  ];
  const several = waitText(ON, { code: "unavailable", params: { nodes: ["A", "B"], problems } });
  assert.match(several, /A ディスク：空き 5 MB、B 確認がまだ終わっていません/);
  japanese(several);
  assert.equal(waitText(ON, { code: "of_tomorrow", params: { n: 1 } }), 'of_tomorrow {"n":1}');
  assert.equal(waitText(ON, { code: "constructor", params: {} }), "constructor {}");
});

Deno.test("alerts, checks of nodes and changes of the clock are said in Japanese", () => {
  for (const kind of ALERT_KINDS) {
    japanese(t(ON, `alerts.name.${kind}`));
    japanese(t(ON, `alerts.about.${kind}`));
  }
  const measured = {
    worker_id: "w",
    node_id: "n",
    load_percent: 300,
    cores: 2,
    disk_free_mb: 5,
    memory_free_mb: 9,
    bodies: 1,
    lack: "?",
  };
  const settings = { ...DEFAULT_SETTINGS, node_max_load_percent: 100 };
  const { result } = judge({ ...measured, scripts: [] }, { settings, ms: 1 });
  for (const part of result.parts) {
    japanese(partNameText(ON, part.name));
    if (part.value) assert.doesNotMatch(partText(ON, part), /[a-z]{3,}/);
  }
  const each = [["w-1", 3_000], ["w-2", 5]] as const;
  const workers = each.map(([worker_id, ms]) =>
    message("nodes.check.silent_worker", { worker_id, code: "UNAVAILABLE", message: stored("rpc.no_answer", { ms }) })
  );
  const silent = { value: "", message: stored("nodes.check.silent", { workers }) };
  assert.equal(
    partText(ON, silent),
    "ワーカーが応答しません：w-1: UNAVAILABLE 3000 ms 以内に応答がありませんでした、w-2: UNAVAILABLE 5 ms 以内に応答がありませんでした",
  );
  const local = { ...silent, value: stored("nodes.check.local_address", { address: "127.0.0.1:7400" }) };
  assert.match(partText(ON, local), /^127\.0\.0\.1:7400 はほかのマシンから届きません。.*\nワーカーが応答しません/);
  const [after, until] = ["2026-11-22T00:00:00Z", "2027-11-22T00:00:00Z"].map((at) => Temporal.Instant.from(at));
  for (const [dst_gap, dst_overlap] of [["after", "first"], ["before", "second"], ["skip", "both"]] as const) {
    const spec = { schedule_type: "daily_at", schedule_value: "02:30", timezone: "Europe/Berlin" } as const;
    const range = { after: after as Temporal.Instant, until: until as Temporal.Instant };
    const warnings = previewWarnings({ ...spec, dst_gap, dst_overlap, exclude: [] }, range);
    assert.equal(warnings.length, 2);
    for (const warning of warnings) japanese(clockText("ja", warning).replaceAll("Europe/Berlin", ""));
  }
});

Deno.test("what is refused, and what is wrong with settings, schedules and options, is said in Japanese", () => {
  for (const one of Object.values(REFUSALS)) {
    japanese(refusalText("ja", new Refused("X", { says: one })));
  }
  assert.match(
    refusalText("ja", new Refused("X", { says: REFUSALS.args_unfit })),
    /^3 件目：.*n：数を指定/,
  );
  for (const one of Object.values(COMPLAINTS)) {
    const text = complaintsText("ja", [{ key: "K", reason: "is not what the test wants", fix: "give it", says: one }]);
    japanese(text.replaceAll(/Asia\/Tokyo/g, ""));
  }
  const wrong = { ...DEFAULT_SETTINGS, leader_tick_seconds: -1, leader_lease_seconds: 50, dispatch: "X" } as never;
  const problems = problemsIn(wrong);
  assert.deepEqual([...new Set(problems.map(({ code }) => code))].sort(), ["bounds", "choice", "relation"]);
  for (const one of problems) {
    japanese(problemText("ja", one).replaceAll(/[a-z]+_[a-z_]+|running|paused|dispatch/g, ""));
  }
});

Deno.test("a page in Japanese says why a run waits, and leads to the run that it waits for", async () => {
  await withAdmin(async ({ sql, login }) => {
    const { run, waits } = await aFullHouse(sql);
    const text = await (await (await login("viewer")).get(`/runs/${waits}`, { "accept-language": "ja" })).text();
    assert.match(text, /直列キー device:7 の実行 \d+ の後に開始します/);
    assert.match(text, new RegExp(`href="/runs/${run + 1}"`));
  });
});

Deno.test("what acts refuse is said in Japanese where they were asked for, and a schedule that cannot be read hides nothing", async () => {
  await withAdmin(async ({ sql, login }) => {
    const { id } = await aDefinition(sql, {
      name: "walk",
      type: "time",
      args_schema: { type: "object", properties: { n: { type: "integer", minimum: 1 } }, required: ["n"] },
      resources: { license: 2 },
    });
    const bad = { schedule_id: "bad", schedule_type: "daily_at", schedule_value: "02:30", timezone: "Mars/Base" };
    const [schedule] = await sql<{ id: number }[]>`
      insert into job_schedule ${sql({ job_definition_id: id, ...bad })} returning id`;
    const run = await aRun(sql, { job_definition_id: id, state: "FAILED", args_json: json(sql, { n: 1 }) });
    const browser = await login("admin");
    const ja = { "accept-language": "ja" };
    const wish = () => crypto.randomUUID();
    const acts: [path: string, fields: Record<string, string>, said: RegExp][] = [
      ["/jobs/walk/run", { wish: wish(), mode: "json", json: '{"n": 1}' }, /リソース license は未登録/],
      ["/jobs/walk/run", { wish: wish(), mode: "json", json: '{"n": 0}' }, /n: 1 以上にしてください/],
      ["/jobs/walk/run", { wish: wish(), mode: "json", json: "{n: 1}" }, /2 文字目：項目名は/],
      ["/jobs/walk/options", { "retry.max": "many", rate: "often", node: "none" }, /ノード none はありません/],
      ["/jobs/walk/schedules/bad", { kind: "cron", value: "0 25 * * *", timezone: "UTC" }, /時（0〜23）の 25 が/],
      ["/jobs/walk/schedules/bad", { kind: "cron", value: "0 25", timezone: "UTC" }, /項目が 2 個です/],
      ["/jobs/walk/reset", { option: "priority" }, /priority：ファイルとは別に設定された値はありません/],
      [`/runs/${run.id}/edit`, { wish: wish(), args: '{"n": "x"}' }, /n：数を指定してください/],
      ["/events/new", { type: "", payload: "{}" }, /イベントの種類を入力/],
      ["/bulks/new", { wish: wish(), job: "none", parallel: "1", items: "{}" }, /ジョブ none は同期されていないか/],
      ["/bulks/new", { wish: wish(), job: "walk", parallel: "1", items: '{"n": 1}\n{"n": 0}' }, /2 件目：.*1 以上に/],
      ["/bulks/new", { wish: wish(), job: "walk", parallel: "1", items: "n,m\n1" }, /2 行目：列の数が/],
      ["/queue/resources", { name: "license", capacity: "0" }, /容量は 0 にできません/],
      ["/nodes/none/drain", {}, /ACTIVE のワーカーがありません/],
    ];
    for (const [path, fields, said] of acts) {
      const answer = await browser.post(path, fields, ja);
      const flash = browser.cookies.get("dandori_flash");
      browser.cookies.delete("dandori_flash");
      const text = (flash ? decodeURIComponent(flash) : await answer.text()).replaceAll("&quot;", '"');
      assert.match(text, said, `${path} ${answer.status}`);
    }
    const range = "from=2026-11-22T00:00:00Z&until=2026-11-23T00:00:00Z";
    for (const path of ["/jobs/walk", "/calendar", `/calendar/${schedule?.id}?${range}`]) {
      assert.match(await browser.text(path, ja), /timezone：IANA タイムゾーンではありません/, path);
    }
    const large = await browser.post("/bulks/new", { items: "x".repeat(1_100_000) }, ja);
    assert.equal(large.status, 413);
    assert.match(await large.text(), /1 MB まで/);
  });
});

/** But for commands and examples to type, and states, which are the database's words. */
function japanese(text: string): void {
  assert.match(text, /[ぁ-んァ-ヶ一-龠]/, text);
  assert.doesNotMatch(
    text.replaceAll(
      /deno task \w+|true|false|cron|Postgres|admin\.high|user\.medium|tenant:\{tenant\}|order\.placed|\{ day: 15, at: "02:30" \}|last 02:30|2 tue 02:30/g,
      "",
    ),
    /[a-z]{3,}/,
    text,
  );
}
