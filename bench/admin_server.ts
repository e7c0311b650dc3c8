/** The admin server as its users start it: a process, with default settings, and a user who logs in with a password. */
import { PROJECT_DIR } from "../src/platform/config.ts";
import { Loader } from "../tests/support/page_load.ts";
import { linesOf } from "./lines.ts";
import type { Servers } from "./servers.ts";

/** Starts it on this database, gives `act` somebody who is logged in as an admin, and ends it. */
export async function withAdminServer<T>(
  on: { servers: Servers; database_url: string },
  act: (loader: Loader, pid: number) => Promise<T>,
): Promise<T> {
  const env = { DATABASE_URL: on.database_url, REDIS_URL: on.servers.redis_url };
  const user = await command(["admin", "user", "add", "bench", "--role", "admin", "--generate", "--json"], env)
    .output();
  if (!user.success) throw new Error(new TextDecoder().decode(user.stderr));
  const { password } = JSON.parse(new TextDecoder().decode(user.stdout)) as { password: string };
  const server = command(["admin", "--port", "0"], env).spawn();
  const ended = server.status;
  try {
    const loader = new Loader(await readyUrl(server.stdout));
    try {
      await loader.logIn("bench", password);
      return await act(loader, server.pid);
    } finally {
      loader.close();
    }
  } finally {
    server.kill("SIGTERM");
    await ended;
  }
}

function command(args: string[], env: Record<string, string>): Deno.Command {
  const all = ["run", "-A", "main.ts", ...args];
  return new Deno.Command(Deno.execPath(), { args: all, cwd: PROJECT_DIR, env, stdout: "piped", stderr: "piped" });
}

/** Without a slash at its end. What comes after is read as well, or the server would wait for it. */
async function readyUrl(stdout: ReadableStream<Uint8Array>): Promise<string> {
  const lines = linesOf(stdout);
  for await (const line of { [Symbol.asyncIterator]: () => ({ next: () => lines.next() }) }) {
    if (!line.startsWith('{"fact":"admin.ready"')) continue;
    void (async () => {
      for await (const _ of lines);
    })();
    return (JSON.parse(line) as { url: string }).url.replace(/\/$/, "");
  }
  throw new Error("The admin server has ended before it was ready");
}
