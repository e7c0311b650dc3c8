/**
 * The runs that one process serves, one after another, and which of them each thing that it says belongs to.
 *
 *   behind --the verdict before it is heard--> front --its own verdict--> judged --both streams are read up to it--> closed
 *
 * Orders are written ahead, so that a process that is done with one run finds the next in its input. What it says on
 * stdout is the front's; on stderr an `idle` frame ends what belongs to a run. A body says `started` before `run` is called,
 * so when the process ends, what had not said so has not begun, and is returned to be run elsewhere.
 *
 * A front that takes long must not hold up those behind it: they are recalled. The process answers which order it has in
 * hand, and drops the others; without an answer (it spins) they wait for its end. Signals name no run, so a front that is to be
 * told something is told only when nobody is behind it any more.
 */
import { after } from "../platform/timers.ts";
import type { RunningBody } from "./body.ts";
import type { BodyLine } from "./endable_body.ts";
import type { FromBody } from "./frames.ts";
import type { Stream } from "./output.ts";
import type { Child, ChildEnd } from "./process.ts";

/** With so many runs in line each word is heard as soon as it is said. */
const MOST_HEARD_AT_ONCE = 3;

export interface ProcessQueueListener {
  /** Not begun, and it will not begin here. */
  onReturned(body: RunningBody): void;
  /** It serves nobody any more, and may serve others. */
  onIdle(line: ProcessQueue): void;
}

export class ProcessQueue implements BodyLine {
  readonly child: Child;
  readonly #listener: ProcessQueueListener;
  readonly #patience_ms: number;
  /** In their order: those whose verdict is heard and whose stderr is not yet read, the front, those behind. */
  #bodies: RunningBody[] = [];
  /** Place of the front: as many are judged. */
  #judged = 0;
  /** Ends of runs on stderr that were read before their verdicts. */
  #idles = 0;
  /** It has brought a run to its verdict: what befalls it while the next one has not begun is not that one's. */
  #has_served = false;
  #recalling = false;
  /** The front from behind which others were recalled. */
  #long: RunningBody | undefined;
  #watching = false;
  #whenAlone: (() => void)[] = [];
  /** The run for which the process was killed. */
  #killed_for: RunningBody | undefined;

  /** `patience_ms`: how long one may be the front before those behind it are recalled. */
  constructor(child: Child, listener: ProcessQueueListener, patience_ms: number) {
    this.child = child;
    this.#listener = listener;
    this.#patience_ms = patience_ms;
  }

  /** Whether one more may be put behind. */
  get open(): boolean {
    return this.child.fit && !this.#recalling && !(this.#long && this.#long === this.#front) && !this.#killed_for &&
      this.#bodies.length > 0 &&
      this.#bodies.at(-1)?.leavesRoom === true && this.#front?.leavesRoom !== false;
  }

  /** Runs that are not judged yet. */
  get length(): number {
    return this.#bodies.length - this.#judged;
  }

  add(body: RunningBody): void {
    this.#bodies.push(body);
    if (this.#bodies.length === 1) {
      this.#idles = 0;
      this.child.listen({
        onFrame: (frame) => this.#hear(frame),
        onText: (stream, bytes) => this.#text(stream, bytes),
        onEnd: (end) => this.#end(end),
      });
    }
    this.child.order(body.words);
    this.child.talkative = this.length > MOST_HEARD_AT_ONCE;
    if (this.length === 1) body.front();
    else this.#watch();
  }

  /** Recalls those behind a front that takes long. */
  #watch(): void {
    if (this.#watching) return;
    this.#watching = true;
    const front = this.#front;
    after(this.#patience_ms, () => {
      this.#watching = false;
      if (this.length < 2) return;
      if (this.#front === front && this.child.ready) this.recall();
      else this.#watch();
    });
  }

  /** Takes back those behind the front, if the process answers. */
  recall(): void {
    if (this.#recalling || this.length < 2 || !this.child.ready) return; // one that loads would not hear, nor answer
    this.#recalling = true;
    this.#long = this.#front;
    this.child.signal("SIGWINCH");
  }

  /** Calls `act` when nobody is behind the front any more: at once, or when those who are have been recalled. */
  alone(act: () => void): void {
    if (this.length < 2 && !this.#recalling) return act();
    this.#whenAlone.push(act);
    this.recall();
  }

  /** TERM, because of one of its runs. */
  terminate(of: RunningBody, grace_ms: number): void {
    this.#killed_for ??= of;
    this.child.terminate(grace_ms);
  }

  /** Ends the process because of one of its runs. */
  kill(of: RunningBody): void {
    this.#killed_for ??= of;
    this.child.kill();
  }

  get #front(): RunningBody | undefined {
    return this.#bodies[this.#judged];
  }

  #hear(frame: FromBody): void {
    if (frame.kind === "recalled") return this.#recalled(frame.job_run_id);
    if (frame.kind === "idle") {
      this.#idles++;
      return this.#close();
    }
    const front = this.#front;
    if (!front) return;
    if (frame.kind === "error" && frame.error.phase === "uncaught" && !this.#isToBlame(front)) return this.child.kill();
    front.hear(frame);
    if (frame.kind !== "result" && frame.kind !== "error") return;
    this.#has_served = true;
    this.#judged++;
    if (this.length <= MOST_HEARD_AT_ONCE) this.child.talkative = false;
    this.#front?.front();
    this.#close();
  }

  /** Whether what befalls the process is the front's. One that has not begun where another was served is innocent, once. */
  #isToBlame(front: RunningBody): boolean {
    return front.begun || front.suspect || (front.first && !this.#has_served);
  }

  /** Those whose verdict is heard and whose stderr is read. */
  #close(): void {
    while (this.#idles > 0 && this.#judged > 0) {
      if (this.#bodies[0]?.condemned) return; // the end of the process is the end of this run too
      const body = this.#bodies.shift() as RunningBody;
      this.#judged--;
      this.#idles--;
      if (this.#bodies.length === 0) this.#rest();
      body.closed();
    }
  }

  #text(stream: Stream, bytes: Uint8Array): void {
    const place = stream === "stdout" ? this.#judged : this.#idles;
    const body = this.#bodies[Math.min(place, this.#bodies.length - 1)];
    body?.text(stream, bytes);
  }

  #recalled(in_hand: number): void {
    if (!this.#recalling) return;
    const front = this.#front;
    const keeps = front !== undefined && (front.begun || front.job_run_id === in_hand); // two of one run would be the worst
    this.child.talkative = false;
    const returned = this.#bodies.splice(this.#judged + (keeps ? 1 : 0));
    this.child.resume();
    this.#recalling = false;
    for (const act of this.#whenAlone.splice(0)) act();
    if (this.#bodies.length === 0) this.#rest();
    for (const body of returned) this.#listener.onReturned(body);
  }

  /** Nobody is left: the process may be given to others. */
  #rest(): void {
    if (this.#recalling) return; // its answer is still to come, and until then it drops what it is given
    this.child.hush();
    this.#listener.onIdle(this);
  }

  #end(end: ChildEnd): void {
    this.#whenAlone = [];
    const bodies = this.#bodies.splice(0);
    const judged = this.#judged;
    this.#judged = 0;
    for (const [place, body] of bodies.entries()) {
      const innocent = place > judged || (place === judged && !this.#isToBlame(body));
      if (place === judged && this.child.ready && !this.#killed_for) body.suspect = true;
      if (innocent && end.heard) this.#listener.onReturned(body);
      else body.ended(end, this.#killed_for === body ? undefined : this.#killed_for);
    }
  }
}
