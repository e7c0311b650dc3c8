/**
 * A process that can be frozen and killed, though all of them live in this one. Whatever it sends or hears goes through
 * `passes`: frozen, it waits there, between what it had looked at and what it was about to do; killed, nothing of it
 * reaches the world any more. Clocks go on meanwhile, as they do for a process that the kernel stopped.
 */
import { after } from "../../../src/platform/timers.ts";

/** Of a process that is no more. No error that production code would try again after. */
export class Crashed extends Error {
  override name = "Crashed";
}

export class SimProcess {
  readonly name: string;
  readonly #end = new AbortController();
  #frozen: PromiseWithResolvers<void> | undefined;
  #cancelThaw = () => {};

  constructor(name: string) {
    this.name = name;
  }

  /** Fires when it is killed. */
  get end(): AbortSignal {
    return this.#end.signal;
  }

  get crashed(): boolean {
    return this.#end.signal.aborted;
  }

  get running(): boolean {
    return !this.crashed && this.#frozen === undefined;
  }

  async passes(): Promise<void> {
    while (this.#frozen && !this.crashed) await this.#frozen.promise;
    if (this.crashed) throw new Crashed(`${this.name} was killed`);
  }

  freeze(ms: number): void {
    this.#cancelThaw();
    this.#frozen ??= Promise.withResolvers();
    this.#cancelThaw = after(ms, () => this.thaw());
  }

  thaw(): void {
    this.#cancelThaw();
    this.#frozen?.resolve();
    this.#frozen = undefined;
  }

  kill(): void {
    this.#end.abort();
    this.thaw();
  }
}
