/** Who rang the leader's bell: whether it was the creation of one run, and nothing besides (fast_path.ts). */
import { type AnnouncedRun, announcedRun } from "../runs/fast_path.ts";

/** What has rung the leader's bell in Postgres since the last round. */
export class Wakeups {
  #created: AnnouncedRun[] = [];
  #new_runs = 0;
  /** Workers have said something of their job files since that was last read. */
  code_news = true;

  hear(what: string): void {
    const created = announcedRun(what);
    if (created) this.#created.push(created);
    else if (what === "job_run") this.#new_runs++;
    else if (what === "code_mismatch") this.code_news = true;
  }

  /** The one run that was created, if nothing but its creation was among the rings. */
  takeSingle(rings: number): AnnouncedRun | undefined {
    const [created] = this.#created;
    const lone = this.#created.length === 1 && this.#new_runs <= 1 && rings === 1 + this.#new_runs;
    this.#created = [];
    this.#new_runs = 0;
    return lone ? created : undefined;
  }
}
