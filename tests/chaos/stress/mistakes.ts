/**
 * Mistakes that are planted to show that the stress and the checker can see them. Each changes what the stress runs, by
 * other SQL on the way to Postgres or other bodies; production code knows nothing of it.
 */
import type { Sql } from "../../../src/store/db.ts";
import type { Strike } from "./nemesis.ts";
import type { Weather } from "./world.ts";

export interface Mistake {
  name: string;
  /** What is written otherwise: each text within a statement, and what takes its place. */
  sql?: [from: string, to: string][];
  /** Other tables. */
  schema?: (sql: Sql) => Promise<unknown>;
  /** Other code, until what it gives is called. */
  code?: () => () => void;
  /** Bodies outlive their workers. */
  unguarded?: true;
  /** Outcomes are told before the body's processes are gone. */
  lingering?: true;
  /** A body is started without a look at the lease. */
  unchecked_spawn?: true;
  /** Faults that expose it, more often than usual. */
  weather?: Partial<Weather>;
  strikes?: Partial<Record<Strike, number>>;
  odds?: (text: string) => Partial<Weather> | undefined;
}

export const MISTAKES: Mistake[] = [];
