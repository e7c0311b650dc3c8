/**
 * HTTP servers that go on. One of Deno's ends for good when it cannot take a connection, as in a moment in which no more files may be opened, and
 * nothing would answer at its port any more; a worker, which runs out of them with its bodies, would end with it.
 */
import { loopFailed } from "./facts.ts";
import { rest } from "./timers.ts";

const LISTEN_AGAIN_MS = 500;

export interface HttpServer {
  port: number;
  /** Takes nothing more, and resolves when what is under way has been answered. */
  shutdown(): Promise<void>;
}

/** Listens at the same port again until it is shut down. @throws what Deno.serve throws, where it cannot listen at first */
export function serveHttp(
  options: Deno.ServeTcpOptions & { name: string; automaticCompression?: boolean },
  answer: (request: Request, info: Deno.ServeHandlerInfo<Deno.NetAddr>) => Response | Promise<Response>,
): HttpServer {
  const stop = new AbortController();
  let server = Deno.serve(options, answer);
  const { port } = server.addr;
  const listening = (async () => {
    for (;;) {
      try {
        return await server.finished;
      } catch (error) {
        if (!stop.signal.aborted) loopFailed(options.name, error);
      }
      await rest(LISTEN_AGAIN_MS, stop.signal);
      if (stop.signal.aborted) return;
      try {
        server = Deno.serve({ ...options, port, onListen: () => {} }, answer);
      } catch {
        // Not yet: what ended the last one is said once more.
      }
    }
  })();
  return {
    port,
    async shutdown() {
      stop.abort();
      await server.shutdown().catch(() => {}); // it has ended already
      await listening;
    },
  };
}
