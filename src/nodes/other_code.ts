/** Which jobs a worker has other versions of than were synced, for people: what code_mismatch.ts keeps, by worker. */
import type { Db } from "../postgres/connection.ts";

/** What a worker has instead of what was synced. */
export interface FoundCode {
  /** Null: the file is missing or cannot be read; `problem` says why. */
  found: string | null;
  problem: string | null;
}

/** A job of which a worker has another version. */
export interface OtherCode extends FoundCode {
  job_name: string;
  /** What was synced. */
  digest: string;
}

/** Of worker `w`, a query of (jobs, first): how many jobs differ, and the first of them by name. */
export function otherCode(sql: Db) {
  return sql`
    select count(*)::int as jobs,
           (json_agg(json_build_object('job_name', m.name, 'digest', m.digest, 'found', m.found, 'problem', m.problem) order by m.name)
             filter (where m.place <= ${MOST_NAMED})) as first
      from (select d.name, m.digest, m.found, m.problem, row_number() over (order by d.name) as place
              from code_mismatch m join job_definition d on d.id = m.job_definition_id and d.digest = m.digest and d.removed_at is null
             where m.worker_id = w.worker_id) m`;
}

const MOST_NAMED = 20;
