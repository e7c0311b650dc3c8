/**
 * How long the runs of a job take, once they have begun, and so how many may wait in a process that serves one after another: as
 * long as a run is sooner done behind them than in a process that must be started for it. What a process costs that serves one
 * alone counts as its run's.
 */

/** About what a process takes to start on a busy machine. */
export const START_MS = 60;
/** To wake one that is idle costs two switches of a core, and each of its runs a read and a write of its own. */
const WAKE_MS = 2;
const MOST_IN_LINE = 400;
/** As much as a status can say. */
const MOST_US = 2 ** 31 - 1;
/** Of what is known, the share that the newest run has, from the tenth run on. */
const WEIGHT = 0.1;
/** Before that nothing is known; the first one of all is not counted, since its code is just being compiled. */
const FEWEST_RUNS = 3;

interface Known {
  key: string;
  ms: number;
  runs: number;
}

export interface CodeDuration {
  digest: string;
  body_us: number;
  runs: number;
}

export class DurationEstimates {
  /** How long a run may keep others waiting behind it, before they are recalled. */
  readonly patience_ms: number = 50;
  readonly #of = new Map<string, Known>();
  /** Whose run was told last, and is so again most of the time. */
  #latest: Known | undefined;
  #codes_known = 0;
  /** By job files: the newest code, and its key. */
  readonly #keys = new Map<string, { digest: string; key: string }>();

  /** A run of it took so long. `key` names the kind of process, `code` is all of it that is known before a run has started. */
  note(key: string, code: { job_file: string; digest: string }, ms: number): void {
    const known = this.#latest?.key === key ? this.#latest : this.#of.get(key) ?? { key, ms: 0, runs: -1 };
    known.runs++;
    if (known.runs === FEWEST_RUNS) this.#codes_known++;
    if (known.runs > 0) known.ms += (ms - known.ms) * Math.max(WEIGHT, 1 / known.runs);
    if (known === this.#latest) return;
    this.#latest = known;
    this.#of.delete(key); // and put last, so that what is not used any more goes first
    this.#of.set(key, known);
    const { job_file, digest } = code;
    if (this.#keys.get(job_file)?.key !== key) this.#keys.set(job_file, { digest, key });
    if (this.#of.size > MOST_KEYS) { for (const [old] of this.#of) return this.#forget(old); }
  }

  /** How many runs of this kind may be in one process at a time. 1: none behind another. */
  mostInLine(key: string): number {
    return this.#inLine(key, START_MS);
  }

  /** How many are sooner done in one process than another that is loaded and idle could be woken for them. */
  mostBeforeAnother(key: string): number {
    return this.#inLine(key, WAKE_MS);
  }

  #inLine(key: string, wait_ms: number): number {
    const known = this.#of.get(key);
    if (known === undefined || known.runs < FEWEST_RUNS) return 1;
    return Math.min(MOST_IN_LINE, 1 + Math.floor(wait_ms / Math.max(known.ms, 0.01)));
  }

  /** The kind of process that ran this code. */
  keyOf(code: { job_file: string; digest: string }): string | undefined {
    const known = this.#keys.get(code.job_file);
    return known?.digest === code.digest ? known.key : undefined;
  }

  /** Rises when of one more code it becomes known what its runs take. */
  get codesKnown(): number {
    return this.#codes_known;
  }

  /** What a run of each code takes, where that is known, and from how many: of each job file the newest. */
  times(): CodeDuration[] {
    return [...this.#keys.values()].flatMap(({ digest, key }) => {
      const known = this.#of.get(key);
      return known && known.runs >= FEWEST_RUNS
        ? [{ digest, body_us: Math.min(Math.round(known.ms * 1000), MOST_US), runs: known.runs }]
        : [];
    });
  }

  #forget(key: string): void {
    this.#of.delete(key);
    if (this.#latest?.key === key) this.#latest = undefined;
    for (const [job_file, known] of this.#keys) if (known.key === key) this.#keys.delete(job_file);
  }
}

const MOST_KEYS = 10_000;
