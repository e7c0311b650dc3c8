/** Who rang the leader's bell: whether it was the birth of one run, and nothing besides (fast_path.ts). */
import { bornFrom, type BornRun } from "../runs/fast_path.ts";

/** What has rung the leader's bell in Postgres since the last round. */
export class Calls {
  #born: BornRun[] = [];
  #births = 0;
  /** Workers have said something of their job files since that was last read. */
  code_news = true;

  hear(what: string): void {
    const born = bornFrom(what);
    if (born) this.#born.push(born);
    else if (what === "job_run") this.#births++;
    else if (what === "code_mismatch") this.code_news = true;
  }

  /** The one run that was born, if nothing but its birth was among the rings. */
  takeLone(rings: number): BornRun | undefined {
    const [born] = this.#born;
    const lone = this.#born.length === 1 && this.#births <= 1 && rings === 1 + this.#births;
    this.#born = [];
    this.#births = 0;
    return lone ? born : undefined;
  }
}
