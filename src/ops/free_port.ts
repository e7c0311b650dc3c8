/** Where a server may listen on this machine. */
import { chance } from "../platform/timers.ts";

/** Below those that systems give to connections: Linux begins at 32768, others at 49152. */
const [LOWEST, HIGHEST] = [15_000, 29_999];
const MOST_TRIES = 1_000;

/**
 * The preferred port when it is free on 127.0.0.1, else one that is. It is free now, and most likely still when a server takes it
 * and when one comes back to it after a while: nobody makes a connection from there.
 */
export function freePort(preferred?: number): number {
  for (let tries = 1, port = preferred ?? anyPort();; tries++, port = anyPort()) {
    try {
      Deno.listen({ hostname: "127.0.0.1", port }).close();
      return port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse) || tries === MOST_TRIES) throw error;
    }
  }
}

function anyPort(): number {
  return LOWEST + Math.floor(chance() * (HIGHEST - LOWEST + 1));
}
