/** `dev`: everything on this machine, the admin page among it, with a login that is there from the start. */
import { openArchive } from "../../archive/open_archive.ts";
import { readAdminConfig } from "../../platform/config.ts";
import { hashPassword, makePassword } from "../../admin/auth/passwords.ts";
import { serveAdmin } from "../../admin/server.ts";
import { type DevPage, runDev } from "../../dev/dev.ts";
import { connectDb, type Sql } from "../../postgres/connection.ts";
import { addUser, listUsers, setPassword } from "../../access/users.ts";
import type { Signals } from "../../app/output.ts";
import { readConfigForDb, redisPlace } from "../../app/opening.ts";

export async function devCommand(options: { workers: number }, { stop, hurry }: Signals): Promise<void> {
  await runDev({ workers: options.workers, stop, hurry, servePage });
}

const NAME = "dev";

async function servePage({ database_url, own_database, state_dir, stop, say }: DevPage): Promise<void> {
  const config = readAdminConfig();
  const sql = connectDb(database_url, { name: "admin", max: 4, by_index: true });
  try {
    const password = own_database ? await readyLogin(sql, `${state_dir}/admin_password`) : undefined;
    const login = password
      ? `log in as ${NAME}, password ${password}`
      : "add a user: deno task admin user add NAME --role admin";
    const ready = (url: string) => say(`${url} shows all of this; ${login}`);
    const on = { sql, stop, ready, redis: redisPlace(), archive: openArchive(readConfigForDb().archive) };
    await serveAdmin(config, on).catch((error) => {
      const { AddrInUse, PermissionDenied } = Deno.errors;
      if (!(error instanceof AddrInUse || error instanceof PermissionDenied)) throw error;
      say(`port ${config.port} ${error instanceof AddrInUse ? "is in use" : "is for root alone"}, so another is taken`);
      return serveAdmin({ ...config, port: 0 }, on);
    });
  } finally {
    await sql.end({ timeout: 2 });
  }
}

/** Only in a database of dev's own: kept beside its other secrets, and made anew when one of the two is gone. */
async function readyLogin(sql: Sql, file: string): Promise<string> {
  const exists = (await listUsers(sql)).some(({ name }) => name === NAME);
  const kept = exists ? readText(file) : undefined;
  if (kept) return kept;
  const password = makePassword();
  const user = { name: NAME, password_hash: await hashPassword(password), role: "admin" } as const;
  if (exists) await setPassword(sql, user, { actor: "dev" });
  else await addUser(sql, user, { actor: "dev" });
  Deno.writeTextFileSync(file, password, { mode: 0o600 });
  return password;
}

function readText(file: string): string | undefined {
  try {
    return Deno.readTextFileSync(file).trim();
  } catch {
    return undefined;
  }
}
