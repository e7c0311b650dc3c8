/**
 * Mistakes that are planted to show that the stress and the checker can see them. Each changes what the stress runs, by
 * other SQL on the way to Postgres, other tables or other bodies; production code knows nothing of it. With each come
 * the faults that expose it, more often than usual, so that few seeds are enough.
 */
import { Contact } from "../../../src/leader/recovery.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import type { Manner } from "./bodies.ts";
import type { Strike } from "./nemesis.ts";
import type { Weather } from "./world.ts";

export interface Mistake {
  name: string;
  /** By which violations it shows, each as "invariant detail". */
  shows: RegExp;
  /** The pieces of a statement, written otherwise; undefined: the mistake is not about it. */
  sql?: (pieces: readonly string[]) => readonly string[] | undefined;
  /** Texts of statements, written otherwise: of each change all, in a statement where all are there. */
  changes?: [from: string, to: string][][];
  /** Other tables. */
  schema?: (sql: Sql) => Promise<unknown>;
  /** Other code; what it gives undoes it. */
  code?: () => () => void;
  /** Bodies outlive their workers. */
  unguarded?: true;
  /** Outcomes are told before the body's processes are gone. */
  lingering?: true;
  /** A body is started without a look at the lease. */
  unchecked_spawn?: true;
  /** How long it takes to show, where that is longer than usual. */
  seconds?: number;
  /** How many processes there are; five unless said. */
  workers?: number;
  weather?: Partial<Weather>;
  /** The only strikes that fall. */
  strikes?: Strike[];
  /** How long whom they hit is away; now this, now that unless said. */
  away_ms?: { least: number; most: number };
  /** Bodies of other manners. */
  manner?: Partial<Manner>;
  /** The only job that is enqueued. */
  job?: string;
  newest_first?: true;
  /** Faults of single statements, by their text. */
  odds?: (text: string) => Partial<Weather> | undefined;
}

const FENCE = "fence as materialized (";

export const MISTAKES: Mistake[] = [
  {
    name: "no fence",
    shows: /^I7 /,
    sql: (pieces) => {
      if (!pieces[0]?.startsWith(FENCE)) return;
      const of_tick = ["::text as worker_id, ", "::bigint as tick)"];
      return [`${FENCE}select `, "::bigint as epoch, ", ...(pieces.length === 3 ? ["::text as worker_id)"] : of_tick)];
    },
    seconds: 4,
    odds: (text) => text.includes(FENCE) ? { pause: 0.2 } : undefined,
  },
  {
    name: "a fence that locks nothing",
    shows: /^I7 /,
    sql: (pieces) => pieces[0]?.startsWith(FENCE) ? [...pieces.slice(0, -1), ")"] : undefined,
    weather: { strikes: 5 },
    strikes: ["hold rows"],
  },
  {
    name: "no dead-man",
    shows: /^(I1|I8|outlived) /,
    unguarded: true,
    seconds: 5,
    weather: { strikes: 1.2 },
    strikes: ["kill"],
    manner: { least_ms: 50, most_ms: 4_000 },
  },
  {
    name: "spawn on an unclear reply",
    shows: /^(I1|I2|I3) /,
    changes: [[
      ["and r.start_token = any(", "and '' <> all("],
      ["and r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ", "and '' <> "],
    ]],
    odds: (text) =>
      /nextval\('fence_seq'\)|start_token = any/.test(text) ? { sql_cut_before: 0.05, sql_late: 0.05 } : undefined,
  },
  {
    name: "no token",
    shows: /^(I1|I8|outlived) /,
    changes: [[
      ["::bigint[]) and r.attempt = (", "::bigint[]) and 0 < ("],
      ["and r.start_token = ", "and '' <> "],
      [
        "r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ",
        "r.state is not distinct from 'RUNNING' and '' <> ",
      ],
    ]],
    seconds: 6,
    weather: { strikes: 0.3 },
    manner: { least_ms: 50, most_ms: 200, fails: 0.9, fatal: 0 },
    odds: (text) => text.includes("then 'RETRYING' else s.outcome") ? { sql_late: 0.4 } : undefined,
  },
  {
    name: "no serial index",
    shows: /^I8 /,
    schema: (sql) => sql`drop index job_run_serial`,
    // What stands before it is taken away as well: an assignment that comes late is refused by the next tick, and for runs
    // that are held.
    changes: [[[" and tick = ", " and 0 <= "]], [[
      "and (not r.held or (r.wakes_at is not null and r.state is distinct from 'SUSPENDED')) and",
      "and",
    ]]],
    weather: { strikes: 0.01, pause: 0, pause_after: 0 },
    manner: { least_ms: 100, most_ms: 400 },
    job: "keyed",
    newest_first: true,
    odds: (text) => text.includes("set state = 'ASSIGNED'") ? { sql_late: 0.6 } : undefined,
  },
  {
    name: "an assignment of an older tick is carried out",
    shows: /^resources /,
    changes: [[[" and tick = ", " and 0 <= "]]],
    seconds: 6,
    weather: { strikes: 0.01, pause: 0, pause_after: 0 },
    manner: { least_ms: 200, most_ms: 600 },
    job: "licensed",
    odds: (text) => text.includes("set state = 'ASSIGNED'") ? { sql_late: 0.6 } : undefined,
  },
  {
    name: "no quarantine of a new leader",
    shows: /^burials /,
    code: () => {
      const { isLongerThan } = Contact.prototype;
      Contact.prototype.isLongerThan = () => true;
      return () => Contact.prototype.isLongerThan = isLongerThan;
    },
    strikes: ["no postgres for anybody", "kill the leader"],
    away_ms: { least: 1_000, most: 1_800 },
  },
  {
    name: "an order of an older attempt is obeyed",
    shows: /^(I1|outlived) /,
    changes: [[
      ["::bigint[]) and r.attempt = (", "::bigint[]) and 0 < ("],
      ["fence = nextval('fence_seq')", "fence = nextval('fence_seq')"], // the start of runs, no other statement
    ]],
    workers: 2, // one leads, so that the other gets every attempt
    weather: { rpc_replay: 1, rpc_slow: 1, strikes: 0.1 },
    manner: { least_ms: 60, most_ms: 400, fails: 0.9, fatal: 0 },
  },
  {
    name: "finish before the group is empty",
    shows: /^(I1|I8|outlived) /,
    lingering: true,
  },
  {
    name: "unique on attempt",
    shows: /^I6 .* has \d+ runs/,
    schema: (sql) =>
      sql.unsafe("drop index job_run_idempotency; alter table job_run add unique (idempotency_key, attempt)"),
    changes: [[[
      "on conflict (idempotency_key) where idempotency_key is not null do nothing",
      "on conflict (idempotency_key, attempt) do nothing",
    ]]],
    weather: { strikes: 0.3 },
    manner: { least_ms: 1, most_ms: 20, fails: 0.9, fatal: 0 },
    job: "plain",
    odds: (text) => text.includes("insert into job_run (") ? { sql_late: 0.4 } : undefined,
  },
  {
    name: "no look at the lease before a body is started",
    shows: /^(I1|I8|outlived) /,
    unchecked_spawn: true,
    weather: { strikes: 0.3 },
    away_ms: { least: 1_500, most: 3_500 },
    odds: (text) => text.includes("nextval('fence_seq')") ? { pause_after: 0.1 } : undefined,
  },
  {
    name: "the leader cancels what runs",
    shows: /^(transitions|outlived) .*CANCELED/,
    changes: [[["and (r.state <> 'RUNNING' or not exists (", "and (true or not exists ("]]],
    manner: { least_ms: 100, most_ms: 1_000 },
  },
];

/** A statement's pieces with the mistake in them, if it is about that statement. */
export function mistaken({ sql, changes = [] }: Mistake, pieces: readonly string[]): readonly string[] | undefined {
  const fits = changes.find((texts) => texts.every(([from]) => pieces.some((piece) => piece.includes(from))));
  if (!fits) return sql?.(pieces);
  return pieces.map((piece) => fits.reduce((now, [from, to]) => now.replace(from, to), piece));
}
