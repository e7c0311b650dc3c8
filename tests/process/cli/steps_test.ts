/** `runs steps`: what programs rely on, what people see, and which step is meant. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { cliWith } from "../../support/cli.ts";
import { aRun } from "../../support/factories.ts";
import { aStep } from "../../support/journal.ts";
import { withStores } from "../../support/stores.ts";

const BEGAN = new Date(Date.UTC(2026, 10, 25, 1, 0, 0));
const ENDED = new Date(Date.UTC(2026, 10, 25, 1, 0, 2));
const UNTIL = new Date(Date.UTC(2100, 10, 28, 1, 0, 0));

async function aJournal(sql: Sql): Promise<number> {
  const { id } = await aRun(sql, { state: "SUSPENDED", held: true, wakes_at: UNTIL });
  const times = { began_at: BEGAN, ended_at: ENDED };
  await aStep(sql, id, { key: "step:make account", kind: "step", state: "DONE", seq: 1, result: { id: 7 }, ...times });
  const failed = { error_name: "StepFailed", error_summary: "no such address" };
  await aStep(sql, id, { key: "step:mail", kind: "step", state: "FAILED", seq: 2, tries: 3, ...failed, ...times });
  await aStep(sql, id, {
    key: "step:book",
    kind: "step",
    state: "DONE",
    seq: 3,
    result: "x".repeat(5_000),
    orphaned: true,
    ...times,
  });
  const wait = { kind: "message", state: "WAITING", waits_for: "confirmed", until: UNTIL };
  await aStep(sql, id, { key: "message:confirmed", began_at: ENDED, ...wait });
  return id;
}

Deno.test("runs steps --json gives programs key, kind, state, position, tries and times of each step", () =>
  withStores(async ({ sql, database_url }) => {
    const id = await aJournal(sql);
    const { out } = await cliWith({ DATABASE_URL: database_url })("runs", "steps", String(id), "--json");
    const times = { started_at: BEGAN.toISOString(), finished_at: ENDED.toISOString() };
    assert.deepEqual(
      JSON.parse(out).map((
        { key, kind, state, position, tries, started_at, finished_at }: Record<string, unknown>,
      ) => ({
        ...{ key, kind, state, position, tries, started_at, finished_at },
      })),
      [
        { key: "step:make account", kind: "step", state: "DONE", position: 1, tries: 1, ...times },
        { key: "step:mail", kind: "step", state: "FAILED", position: 2, tries: 3, ...times },
        { key: "step:book", kind: "step", state: "DONE", position: 3, tries: 1, ...times },
        {
          key: "message:confirmed",
          kind: "message",
          state: "WAITING",
          position: null,
          tries: 1,
          started_at: ENDED.toISOString(),
          finished_at: null,
        },
      ],
    );
  }));

Deno.test("runs steps shows results, errors, orphaned steps and until when it waits; a run without steps says so", () =>
  withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const id = String(await aJournal(sql));
    const { out } = await cli("runs", "steps", id, "--utc");
    for (
      const words of [
        '{"id":7}',
        "StepFailed: no such address",
        "DONE, orphaned",
        "5002 bytes",
        "waits until 2100-11-28 01:00:00Z",
        " 2.0 s",
      ]
    ) {
      assert(out.includes(words), `${words} in ${out}`);
    }
    const other = await aRun(sql);
    assert.match((await cli("runs", "steps", String(other.id))).out, /has no steps/);
  }));

Deno.test("one step is named by its key or its name, and given whole; an unknown one names those there are", () =>
  withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const id = String(await aJournal(sql));
    for (const name of ["book", "step:book"]) {
      assert.equal(JSON.parse((await cli("runs", "steps", id, "--step", name)).out).result.length, 5_000);
    }
    const unknown = await cli("runs", "steps", id, "--step", "charge");
    assert.notEqual(unknown.code, 0);
    assert.match(
      unknown.err,
      /Cannot find step "charge" of run \d+: it has step:make account, step:mail, step:book, message:confirmed/,
    );
  }));

Deno.test("runs show --json says what a suspended run waits for, and of any other run nothing", () =>
  withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const shown = async (id: number) => JSON.parse((await cli("runs", "show", String(id), "--json")).out);
    const { state, waits } = await shown(await aJournal(sql));
    assert.equal(state, "SUSPENDED");
    const [{ kind, name, until }] = waits;
    assert.deepEqual([waits.length, kind, name, new Date(until)], [1, "message", "confirmed", UNTIL]);
    assert.deepEqual((await shown((await aRun(sql)).id)).waits, []);
  }));
