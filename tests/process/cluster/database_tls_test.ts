/** TLS to Postgres: whose certificate is taken, and what is said where it is not. */
import assert from "node:assert/strict";
import { makeAuthority, makeCertificate } from "../../../src/rpc/certificates.ts";
import { startPostgres } from "../../../src/dev/postgres.ts";
import { explanation } from "../../../src/ops/explain.ts";
import { connectDb, isShutOut } from "../../../src/postgres/connection.ts";
import { waitFor } from "../../support/waiting.ts";

Deno.test("with sslrootcert a Postgres is taken whose certificate is of that authority and names it, and no other", async () => {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-pgtls-" });
  const postgres = await startPostgres({ state_dir: dir, throwaway: true });
  try {
    const authority = await makeAuthority("company", { days: 1 });
    const [ca, other] = [`${dir}/ca.pem`, `${dir}/other.pem`];
    Deno.writeTextFileSync(ca, authority.certificate);
    Deno.writeTextFileSync(other, (await makeAuthority("another", { days: 1 })).certificate);
    const plain = new URL(postgres.url);
    const named = (host: string, query: string) => `${postgres.url.replace(plain.hostname, host)}?${query}`;
    await serveTls(postgres.url, await makeCertificate("db", { days: 1, authority, hosts: ["127.0.0.1"] }));
    await waitFor("TLS", () => isEncrypted(named("127.0.0.1", "sslmode=prefer")));

    assert.equal(await isEncrypted(postgres.url), false);
    assert.equal(await isEncrypted(named("127.0.0.1", "sslmode=require")), true, "whoever answers");
    for (const mode of ["sslmode=verify-full&", "sslmode=require&", ""]) {
      assert.equal(await isEncrypted(named("127.0.0.1", `${mode}sslrootcert=${ca}`)), true, mode);
    }
    assert.equal(await isEncrypted(named("127.0.0.1", `sslmode=disable&sslrootcert=${ca}`)), false);
    await leftWhileTheFileIsGone(named("127.0.0.1", `sslrootcert=${ca}`), ca);

    const refused = [
      named("127.0.0.1", "sslmode=verify-full"),
      named("127.0.0.1", `sslrootcert=${other}`),
      named("localhost", `sslrootcert=${ca}`), // which its certificate does not name
    ];
    for (const url of refused) {
      await assert.rejects(isEncrypted(url), (error) => {
        assert(isShutOut(error), "what ends meanwhile waits for a better certificate");
        assert.match(explanation(error), /^Cannot trust Postgres' certificate: .*&sslrootcert=/);
        return true;
      }, url);
    }
    assert.throws(
      () => connectDb(named("127.0.0.1", `sslrootcert=${dir}/none`), { name: "test" }),
      /sslrootcert of DATABASE_URL, .*none/,
    );
  } finally {
    await postgres.stop();
    Deno.removeSync(dir, { recursive: true });
  }
});

/** A pool that is left is followed by another one, whatever has become of the file since the start. */
async function leftWhileTheFileIsGone(url: string, ca: string): Promise<void> {
  const text = Deno.readTextFileSync(ca);
  const sql = connectDb(url, { name: "test", max: 1 });
  try {
    const [before] = await sql`select pg_backend_pid() as pid`;
    Deno.removeSync(ca);
    await assert.rejects(sql`do $$ begin raise sqlstate '25006'; end $$`);
    const [after] = await sql`select pg_backend_pid() as pid`;
    assert.notEqual(after?.pid, before?.pid);
  } finally {
    await sql.end({ timeout: 1 });
    Deno.writeTextFileSync(ca, text);
  }
}

async function isEncrypted(url: string): Promise<boolean> {
  const sql = connectDb(url, { name: "test", max: 1 });
  try {
    const [row] = await sql<{ ssl: boolean }[]>`select ssl from pg_stat_ssl where pid = pg_backend_pid()`;
    return row?.ssl ?? false;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function serveTls(url: string, made: { certificate: string; private_key: string }): Promise<void> {
  const sql = connectDb(url, { name: "test", max: 1 });
  try {
    const [place] = await sql<{ dir: string }[]>`select current_setting('data_directory') as dir`;
    const { uid, gid } = Deno.statSync(place?.dir ?? "");
    for (const [name, text] of [["server.crt", made.certificate], ["server.key", made.private_key]] as const) {
      const file = `${place?.dir}/${name}`;
      Deno.writeTextFileSync(file, text, { mode: 0o600 });
      if (Deno.uid() === 0) Deno.chownSync(file, uid, gid);
    }
    await sql`alter system set ssl = on`;
    await sql`select pg_reload_conf()`;
  } finally {
    await sql.end({ timeout: 1 });
  }
}
