/** Keeps one server alive: starts it again when it ends by itself, until it is told to end. */
import { rest } from "../platform/timers.ts";
import { Backoff } from "./backoff.ts";
import type { Service } from "./service.ts";

export interface SupervisorOptions {
  start(): Promise<Service>;
  say(text: string): void;
  /** It cannot be kept alive. Called once, after which it is not tried again. */
  failed(why: Error): void;
}

export class Supervisor {
  #service: Service;
  readonly #ending = new AbortController();
  readonly #keeping: Promise<void>;

  constructor(first: Service, options: SupervisorOptions) {
    this.#service = first;
    this.#keeping = this.#keep(options).catch((error) => {
      options.failed(error instanceof Error ? error : new Error(String(error)));
    });
  }

  /** Stops the server, by force after `grace_ms`. Resolves when it is gone. */
  async end(grace_ms?: number): Promise<void> {
    this.#ending.abort();
    await this.#service.stop(grace_ms);
    await this.#keeping;
  }

  async #keep({ start, say }: SupervisorOptions): Promise<void> {
    const patience = new Backoff();
    const ending = this.#ending.signal;
    for (;;) {
      const { url, name, ended } = this.#service;
      const how = await ended;
      if (ending.aborted) return;
      const wait_ms = patience.ended();
      say(`${name} ended with ${how}; it is started again in ${wait_ms / 1000} s`);
      await rest(wait_ms, ending);
      if (ending.aborted) return;
      patience.began();
      this.#service = await start();
      if (ending.aborted) return await this.#service.stop();
      if (this.#service.url === url) {
        say(`${name} is up again`);
        continue;
      }
      await this.#service.stop();
      throw new Error(`Cannot keep ${name} alive: another program took its port; start dev again`);
    }
  }
}
