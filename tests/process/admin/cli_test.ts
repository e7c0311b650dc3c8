/** Users of the admin page from the command line, and its server as a process. */
import assert from "node:assert/strict";
import { passwordFits } from "../../../src/admin/auth/passwords.ts";
import { PROJECT_DIR, readAdminConfig } from "../../../src/platform/config.ts";
import { eachLine } from "../../../src/dev/worker_supervisor.ts";
import { readCredentials } from "../../../src/access/users.ts";
import { cliWith } from "../../support/cli.ts";
import { withStores } from "../../support/stores.ts";

Deno.test("users are added with a password that is made or read from stdin, never from the command line", async () => {
  await withStores(async ({ sql, database_url }) => {
    const env = { DATABASE_URL: database_url, SCHEDULER_STATE_DIR: "/nonexistent" };
    const cli = cliWith(env);
    assert.match((await cli("admin", "user", "ls")).out, /no users yet; add one/);
    const made = await cli("admin", "user", "add", "taro", "--role", "admin", "--generate");
    const [, password = ""] = /shown only once: (\S+)/.exec(made.out) ?? [];
    assert(await passwordFits(password, (await readCredentials(sql, "taro"))?.password_hash));
    const piped = await pipedInto(["admin", "user", "add", "hanako", "--role", "viewer"], "from a secret store\n", env);
    assert.equal(piped, 0);
    assert(await passwordFits("from a secret store", (await readCredentials(sql, "hanako"))?.password_hash));
    assert.equal(await pipedInto(["admin", "user", "passwd", "hanako"], "short\n", env), 2);
    assert.match(
      (await cli("admin", "user", "add", "taro", "--role", "viewer", "--generate")).err,
      /the name is taken/,
    );
    assert.match(
      (await cli("admin", "user", "add", "Tarō", "--role", "viewer", "--generate")).err,
      /lower case letters/,
    );
    assert.match((await cli("admin", "user", "set-role", "taro", "king")).err, /give one of viewer, operator, admin/);
    assert.equal((await cli("admin", "user", "set-role", "hanako", "operator")).code, 0);
    assert.match((await cli("admin", "user", "set-role", "taro", "viewer")).err, /last admin/);
    assert.equal((await cli("admin", "user", "rm", "hanako")).code, 0);
    assert.match((await cli("admin", "user", "rm", "hanako")).err, /Cannot remove user "hanako": there is none/);
    const acts = await sql<
      { action: string; target_id: string }[]
    >`select action, target_id from admin_action_log order by id`;
    assert.deepEqual(acts.map(({ action, target_id }) => `${action} ${target_id}`), [
      "user.add taro",
      "user.add hanako",
      "user.set_role hanako",
      "user.remove hanako",
    ]);
  });
});

Deno.test("the server says where it is, answers there, and stops when it is told to", async () => {
  await withStores(async ({ database_url }) => {
    const server = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "main.ts", "admin", "--port", "0"],
      cwd: PROJECT_DIR,
      env: { DATABASE_URL: database_url, SCHEDULER_STATE_DIR: "/nonexistent" },
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const ready = Promise.withResolvers<string>();
    const lines = eachLine(server.stdout, (line) => {
      const said = JSON.parse(line) as { fact: string; url?: string };
      if (said.fact === "admin.ready") ready.resolve(said.url as string);
    });
    const url = await ready.promise;
    const answer = await fetch(`${url}readyz`);
    assert.deepEqual([answer.status, await answer.text()], [200, "ready\n"]);
    const taken = await cliWith({ DATABASE_URL: database_url })("admin", "--port", new URL(url).port);
    assert.match(taken.err, /the port is in use; give another with --port/);
    server.kill("SIGTERM");
    assert.equal((await server.status).code, 0);
    await lines;
  });
});

Deno.test("what the environment says of the page is checked, all of it at once", () => {
  const env = { SCHEDULER_ADMIN_URL: "example.com", SCHEDULER_ADMIN_PORT: "x", SCHEDULER_ADMIN_PROXIES: "-1" };
  assert.throws(() => readAdminConfig({}, env), /ADMIN_URL must be like .*ADMIN_PORT .*ADMIN_PROXIES/);
  const { host, port } = readAdminConfig({ port: 1 }, { SCHEDULER_ADMIN_PORT: "2", SCHEDULER_ADMIN_HOST: "::" });
  assert.deepEqual([host, port], ["::", 1]);
});

async function pipedInto(args: string[], text: string, env: Record<string, string>): Promise<number> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "main.ts", ...args],
    cwd: PROJECT_DIR,
    env,
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(text)); // and left open: the first line is enough
  const { code } = await child.status;
  await writer.close().catch(() => {});
  return code;
}
