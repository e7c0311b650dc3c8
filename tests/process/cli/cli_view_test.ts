/** What the command line shows: tables as wide as the terminal, times in the zone of who reads them, and why a run waits or failed. */
import assert from "node:assert/strict";
import stringWidth from "string-width";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { tableLines } from "../../../src/cli/table.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { cliWith } from "../../support/cli.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const NOW = new Date("2026-11-24T12:00:00Z");
const LONG = "a reason that is longer than what is left of any line, with all that somebody would want to read of it";

Deno.test("a table that does not fit its terminal is made to: first its times, then its widest texts", () => {
  const columns = ["id", "job", "started", "reason"];
  const rows = [
    [1, "export", new Date("2026-11-24T11:59:58Z"), LONG],
    [2, "出力する".repeat(8), new Date("2026-03-01T01:02:03Z"), null],
  ];
  const whole = tableLines(columns, rows, { now: NOW });
  assert(whole.join("\n").includes(LONG) && whole.join("\n").includes("2026-11-24 "), "nothing is left out of a file");
  assert.deepEqual(tableLines(columns, rows, { now: NOW, width: 400 }), whole);
  for (let width = 45; width < 150; width++) {
    const lines = tableLines(columns, rows, { now: NOW, width });
    const widths = lines.map((line) => stringWidth(line));
    assert(widths.every((one) => one <= width), `${width}: ${lines.join("\n")}`);
    assert.equal(lines[1]?.includes(LONG), false);
    assert.match(lines[1] ?? "", /^1 .* \d\d:\d\d:\d\d +a reason .*…$/);
    assert.match(lines[2] ?? "", /^2 .* \d\d-\d\d \d\d:\d\d:\d\d {2}-$/);
    assert(width - Math.max(...widths) <= 1, "what room there is is used");
    const starts = [1, 2].map((row) => stringWidth(lines[row]?.split(/ \d\d[-:]/)[0] ?? ""));
    assert.equal(starts[0], starts[1], "a Japanese letter takes two columns");
  }
  const narrow = tableLines(columns, rows, { now: NOW, width: 5 });
  assert.match(narrow[1] ?? "", /^1 +export .* a reason …$/, "no text is made shorter than one can read");
});

const kept = { args_json: {}, created_at: new Date("2026-11-24T11:00:00Z") };

Deno.test("runs ls says when each started, how long it took, what it comes from, and why it waits or failed", () =>
  withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const { failed, timed_out, retrying } = await threeRuns(sql);
    const { code, out } = await cli("runs", "ls", "--utc");
    assert.equal(code, 0);
    const lines = out.trimEnd().split("\n").map((line) => line.split(/ {2,}/));
    const now = await aged(sql, failed.id);
    assert.deepEqual(lines, [
      ["id", "job", "state", "started", "took", "age", "source", "reason"],
      [
        `${retrying.id}`,
        "export",
        "RETRYING",
        "-",
        "-",
        lines[1]?.[5],
        "enqueue",
        "next attempt at 2100-01-01 00:00:00Z; Error: no route",
      ],
      [
        `${timed_out.id}`,
        "export",
        "TIMED_OUT",
        "2026-11-24 11:00:01Z",
        "850 ms",
        now,
        "enqueue",
        "TimedOut: Timed out after 1 s",
      ],
      [
        `${failed.id}`,
        "export",
        "FAILED",
        "2026-11-24 11:00:01Z",
        "2m 05s",
        now,
        "event",
        'NotCapable: Requires net access to "a:1"',
      ],
    ]);
    for (const [name, id] of [["NotCapable", failed.id], ["TimedOut", timed_out.id]] as const) {
      const found = JSON.parse((await cli("runs", "ls", "--where", `error=${name}`, "--json")).out);
      assert.deepEqual(found.map((run: { id: number }) => run.id), [id], "what is shown is what is found by");
    }
    const shown = (await cli("runs", "show", `${retrying.id}`, "--utc")).out;
    assert.match(shown, /^next attempt at +2100-01-01 00:00:00Z$/m);
    assert.doesNotMatch(shown, /why waiting/);
    assert.match((await cli("runs", "show", `${failed.id}`)).out, /^error name +NotCapable$/m);
    assert.match(
      (await cli("explain", `${retrying.id}`, "--utc")).out,
      /is RETRYING: next attempt at 2100-01-01 00:00:00Z, after Error: no route$/m,
    );
  }));

/** One that failed, one that took too long, and one that waits for its next try. */
async function threeRuns(sql: Sql) {
  const { id: job_definition_id } = await aDefinition(sql, { name: "export" });
  await aWorker(sql, { worker_id: "w-1" });
  const ran = { job_definition_id, ...kept, started_at: new Date("2026-11-24T11:00:01Z") };
  const failed = await aRun(sql, {
    ...ran,
    state: "FAILED",
    source: "event",
    finished_at: new Date("2026-11-24T11:02:06Z"),
    error_name: "NotCapable",
    error_summary: 'NotCapable: Requires net access to "a:1"\n    at export.ts:1:1',
  });
  const timed_out = await aRun(sql, {
    ...ran,
    state: "TIMED_OUT",
    finished_at: new Date("2026-11-24T11:00:01.850Z"),
    error_name: "TimedOut",
    error_summary: "Timed out after 1 s",
  });
  const retrying = await aRun(sql, {
    job_definition_id,
    state: "RETRYING",
    attempt: 1,
    due_at: new Date("2100-01-01T00:00:00Z"),
    error_name: "Error",
    error_summary: "Error: no route",
  });
  return { failed, timed_out, retrying };
}

/** How old a run is, to the unit in which a list says it. */
async function aged(sql: Sql, id: number): Promise<string> {
  const [row] = await sql<{ days: number; hours: number }[]>`
    select extract(day from age)::int as days, extract(hour from age)::int as hours
      from (select clock_timestamp() - created_at as age from job_run where id = ${id}) a`;
  return row && row.days > 0 ? `${row.days}d` : `${row?.hours}h`;
}

Deno.test("times are in the zone of who reads them, or in UTC, and are taken as they were shown", () =>
  withStores(async ({ sql, database_url }) => {
    const run = await aRun(sql, { state: "SUCCEEDED", started_at: NOW, finished_at: new Date("2026-11-24T12:00:02Z") });
    const shown = async (zone: string, ...args: string[]) =>
      (await cliWith({ DATABASE_URL: database_url, TZ: zone })("runs", ...args)).out;
    for (
      const [zone, text] of [["Asia/Tokyo", "21:00:00+09"], ["Asia/Kolkata", "17:30:00+05:30"], [
        "UTC",
        "12:00:00Z",
      ]] as const
    ) {
      assert((await shown(zone, "ls")).includes(`2026-11-24 ${text}`), zone);
      assert((await shown(zone, "show", `${run.id}`)).includes(`started        2026-11-24 ${text} on `), zone);
      assert((await shown(zone, "ls", "--utc")).includes("2026-11-24 12:00:00Z"), zone);
      const [json] = JSON.parse(await shown(zone, "ls", "--json"));
      assert.equal(json.started_at, "2026-11-24T12:00:00.000Z");
    }
    await sql`update job_run set created_at = ${NOW}`;
    const since = async (text: string) =>
      JSON.parse(
        (await cliWith({ DATABASE_URL: database_url })("runs", "ls", "--where", `since=${text}`, "--json")).out,
      ).length;
    assert.deepEqual([await since("2026-11-24 21:00:00+09"), await since("2026-11-24 21:00:01+09")], [1, 0]);
  }));

Deno.test("where an instant is asked for, so is how far away it is", () =>
  withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    await aDefinition(sql, { name: "export" });
    for (const [text, seconds] of [["10m", 600], ["+2h", 7_200], ["-90s", -90], ["3d", 259_200]] as const) {
      const { id } = JSON.parse((await cli("run", "export", "--at", text, "--json")).out);
      const [row] = await sql<{ early: number; late: number }[]>`
        select extract(epoch from due_at - created_at)::float8 as early,
               extract(epoch from due_at - clock_timestamp())::float8 as late from job_run where id = ${id}`;
      assert(row && row.early <= seconds + 0.01 && row.late >= seconds - 60, `${text}: ${JSON.stringify(row)}`);
    }
    for (const text of ["10", "m", "10y", "+", "9999999d"]) {
      const { code, err } = await cli("run", "export", "--at", text);
      assert.deepEqual([code, /Cannot use ".*": give an instant .* or how long from now, such as "10m"/.test(err)], [
        2,
        true,
      ], err);
    }
  }));

Deno.test("on a terminal a list is as wide as the terminal, and elsewhere whole", () =>
  withStores(async ({ sql, database_url }) => {
    const error = { error_name: "Error", error_summary: `Error: ${LONG}` };
    await aRun(sql, { state: "FAILED", started_at: NOW, ...error });
    const on_terminal = await main(["runs", "ls"], { database_url, columns: 100 });
    const lines = on_terminal.out.trimEnd().split(/\r?\n/);
    assert.equal(lines.length, 2, on_terminal.out);
    assert.equal(stringWidth(lines[1] ?? ""), 100);
    assert.match(lines[1] ?? "", /Error: a reason .*…$/);
    assert((await main(["runs", "ls"], { database_url })).out.includes(LONG));
    const json = await main(["runs", "ls", "--json"], { database_url, columns: 100 });
    assert.equal(JSON.parse(json.out)[0].error_summary, error.error_summary);
  }));

interface Where {
  database_url: string;
  /** Of the terminal that it is given; undefined: it gets none. */
  columns?: number;
}

async function main(args: string[], { database_url, columns }: Where): Promise<{ out: string }> {
  const line = ["deno", "run", "-A", "main.ts", ...args];
  const command = columns === undefined ? new Deno.Command(Deno.execPath(), options(line.slice(1))) : new Deno.Command(
    "script",
    options(["-qec", `stty cols ${columns}; exec "$DENO" ${line.slice(1).join(" ")}`, "/dev/null"]),
  );
  function options(args: string[]): Deno.CommandOptions {
    const env = { DATABASE_URL: database_url, TZ: "UTC", NO_COLOR: "1", DENO: Deno.execPath() };
    return { args, cwd: PROJECT_DIR, env, stdin: "null" };
  }
  const { stdout, stderr, success } = await command.output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  assert(success, `${out}${err}`);
  return { out: out ?? "" };
}
