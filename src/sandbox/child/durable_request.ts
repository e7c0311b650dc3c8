/** How a call of the body becomes a request to the journal: whatever is wrong with it rejects, and nothing is thrown at once. */
import type { DurableParts } from "./durable_parts.ts";
import type { StepRequest } from "./journal.ts";

/** How a request is answered. */
export interface Settle {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** `make` gives undefined where it has answered by itself. */
export function request<T>(parts: DurableParts, make: (settle: Settle) => StepRequest | undefined): Promise<T> {
  return new Promise<unknown>((resolve, reject) => {
    parts.requested();
    const made = make({ resolve, reject });
    if (made) parts.journal.request(made);
  }) as Promise<T>;
}
