/** `sync` as it is typed: what must be said, what is asked in a terminal, and what a job's page of the command line says of it. */
import assert from "node:assert/strict";
import { hostname } from "node:os";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { readDefinitions } from "../../../src/definitions/definition_rows.ts";
import { cliWith } from "../../support/cli.ts";
import { type Bench, job, withSync } from "../../support/job_files/bench.ts";
import { stored } from "../../../src/locale/message.ts";

const envOf = ({ database_url, jobs }: Bench) => ({ DATABASE_URL: database_url, SCHEDULER_JOBS_DIR: jobs.dir });
const removed = async ({ sql }: Bench) => (await readDefinitions(sql)).filter((one) => one.removed_at).length;

Deno.test("without a terminal a removal wants --yes: else exit 2, a clear error, and nothing is changed", async () => {
  await withSync({ "a.ts": job(), "b.ts": job() }, async (bench) => {
    const cli = cliWith(envOf(bench));
    assert.equal((await cli("sync", "--reason", "first")).code, 0);
    bench.jobs.remove("b.ts");
    bench.jobs.write("a.ts", job("priority: 5,"));
    const refused = await cli("sync");
    assert.equal(refused.code, 2);
    assert.match(refused.out, /! 1 job would be removed: b\n/);
    assert.match(
      refused.err,
      /^error: Cannot sync: 1 job would be removed: b; nothing was changed; to apply it anyway: deno task sync --yes\n$/,
    );
    const told = await cli("sync", "--json");
    const { applied, drift, needs_yes } = JSON.parse(told.out);
    assert.deepEqual([told.code, applied, drift, needs_yes], [2, false, true, ["1 job would be removed: b"]]);
    assert.deepEqual((await readDefinitions(bench.sql)).map((one) => [one.priority, one.removed_at]), [
      [240, null],
      [240, null],
    ]);
    assert.equal((await cli("sync", "--plan")).code, 0);
    assert.equal((await cli("sync", "--yes")).code, 0);
    assert.equal(await removed(bench), 1);
    const shown = (await cli("jobs", "show", "a")).out;
    assert(new RegExp(`\n  synced \\S+ \\S+ by cli:\\S+ on ${hostname()}\n`).test(shown), shown);
    const acts = await bench.sql`select distinct reason from admin_action_log where action = 'job.sync' order by 1`;
    assert.deepEqual(acts.map(({ reason }) => reason), ["first", stored("reason.command_line")]);
  });
});

Deno.test("in a terminal it asks, and only yes is yes", async () => {
  await withSync({ "a.ts": job(), "b.ts": job() }, async (bench) => {
    await bench.sync();
    bench.jobs.remove("b.ts");
    const no = await inTerminal(bench, "no");
    assert.match(no.out, /1 job would be removed: b(.|\n)*not applied; `deno task sync --yes` does/);
    assert.deepEqual([no.code, await removed(bench)], [2, 0]);
    const yes = await inTerminal(bench, "y");
    assert.match(yes.out, /0 added, 0 changed, 1 removed, 1 unchanged: applied/);
    assert.deepEqual([yes.code, await removed(bench)], [0, 1]);
  });
});

/** What is said in a terminal of its own, where `answer` is typed when it asks. */
async function inTerminal(bench: Bench, answer: string): Promise<{ code: number; out: string }> {
  const child = new Deno.Command("script", {
    args: ["-qec", `'${Deno.execPath()}' run -A --no-check main.ts sync`, "/dev/null"],
    cwd: PROJECT_DIR,
    env: { ...envOf(bench), NO_COLOR: "1" },
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const keys = child.stdin.getWriter();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let out = "";
  for (let asked = false;;) {
    const { value, done } = await reader.read();
    if (done) break;
    out += value;
    if (asked || !out.includes("[y/N]")) continue;
    asked = true;
    await keys.write(new TextEncoder().encode(`${answer}\n`));
  }
  const { code } = await child.status;
  await keys.close().catch(() => {}); // the terminal is gone
  return { code, out: out.replaceAll("\r", "") };
}
