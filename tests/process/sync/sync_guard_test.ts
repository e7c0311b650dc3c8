/** What a sync does only when it is meant, and what it keeps of who did it, where, and from which commit. */
import assert from "node:assert/strict";
import { hostname } from "node:os";
import { syncJobs } from "../../../src/dev/jobs.ts";
import { reportText } from "../../../src/sync/plan_text.ts";
import type { SyncReport } from "../../../src/sync/sync.ts";
import { readDefinitions } from "../../../src/definitions/definition_rows.ts";
import { listJobs } from "../../../src/runs/job_view.ts";
import { assertApplied, type Bench, job, withSync } from "../../support/job_files/bench.ts";
import type { JobFolder } from "../../support/job_files/folder.ts";

const textOf = (report: SyncReport) => reportText(report, { color: false });

/** Syncs as somebody who answers `yes`; gives what was asked as well. */
async function asking(bench: Bench, yes: boolean): Promise<{ report: SyncReport; asked: string[][] }> {
  const asked: string[][] = [];
  const report = await bench.sync("apply", undefined, ({ needs_yes }) => {
    asked.push(needs_yes);
    return Promise.resolve(yes);
  });
  return { report, asked };
}

Deno.test("jobs are removed, and older code comes back, only when somebody says that it is meant", async () => {
  const [old, newer] = [job("priority: 1,"), job("priority: 2,")];
  await withSync({ "a.ts": old, "b.ts": job(), "c.ts": job() }, async (bench) => {
    const { sql, jobs } = bench;
    const first = await asking(bench, false);
    assertApplied(first.report);
    jobs.write("a.ts", newer);
    const second = await asking(bench, false);
    assertApplied(second.report);
    assert.deepEqual([first.asked, second.asked], [[], []], "what is new is not asked");
    const before = await readDefinitions(sql);
    jobs.remove("b.ts");
    jobs.remove("c.ts");
    jobs.write("a.ts", old);
    const third = await asking(bench, false);
    const why = ["2 jobs would be removed: b, c", "1 job would go back to older code: a"];
    assert.deepEqual([third.asked, third.report.applied, third.report.drift], [[why], false, true]);
    assert.deepEqual(await readDefinitions(sql), before, "nothing was changed");
    assert.match(textOf(third.report), /not applied; `deno task sync --yes` does/);
    assert.match(textOf(await bench.sync("check")), /`deno task sync --yes` applies this/);
    assert.match(
      textOf(third.report),
      /~ a {2}a\.ts\n {4}older than what is stored: synced just now by ann on \S+; this code was synced just now by ann on/,
    );
    const fourth = await asking(bench, true);
    assertApplied(fourth.report);
    assert.equal((await readDefinitions(sql)).filter((one) => one.removed_at).length, 2);
    jobs.write("b.ts", job());
    assert.deepEqual((await asking(bench, false)).asked, [], "a file that is back is no removal");
    jobs.write("a.ts", newer);
    assert.equal((await asking(bench, false)).asked.length, 1, "this code was there, too");
  });
});

Deno.test("another sync that comes between question and answer is not overwritten unseen: what is then planned is asked again", async () => {
  await withSync({ "a.ts": job(), "b.ts": job() }, async (bench) => {
    assertApplied(await bench.sync());
    bench.jobs.remove("b.ts");
    let asked = 0;
    const report = await bench.sync("apply", undefined, async ({ needs_yes }) => {
      asked++;
      if (asked === 1) await bench.sql`update job_definition set description = 'changed meanwhile' where name = 'a'`;
      assert.deepEqual(needs_yes, ["1 job would be removed: b"]);
      return asked === 1;
    });
    assert.deepEqual([asked, report.applied], [2, false]);
    assert((await readDefinitions(bench.sql)).every((one) => one.removed_at === null));
  });
});

Deno.test("commit, changes beside it, user and machine are kept with each sync; an older commit is asked for", async () => {
  await withSync({ "a.ts": job() }, async (bench) => {
    const { sql, jobs } = bench;
    assertApplied(await bench.sync());
    assert.deepEqual(await syncedFrom(bench), ["ann", hostname(), null, null], "there is no repository");
    await git(jobs, "2026-03-01T00:00:00Z", "init", "-q");
    const commit = async (at: string) => {
      await git(jobs, at, "add", "-A");
      await git(jobs, at, "commit", "-qm", "jobs");
      return (await git(jobs, at, "rev-parse", "HEAD")).trim();
    };
    const early = await commit("2026-03-01T00:00:00Z");
    jobs.write("a.ts", job("priority: 1,"));
    const late = await commit("2026-03-02T00:00:00Z");
    assertApplied(await bench.sync());
    assert.deepEqual(await syncedFrom(bench), ["ann", hostname(), late, false]);
    jobs.write("a.ts", job("priority: 2,"));
    assertApplied(await bench.sync());
    assert.deepEqual(await syncedFrom(bench), ["ann", hostname(), late, true]);
    await git(jobs, "2026-03-02T00:00:00Z", "checkout", "-qf", early);
    jobs.write("a.ts", job("priority: 3,")); // never stored before
    await sql`update job_sync set synced_at = synced_at - interval '3 hours'`;
    const { asked, report } = await asking(bench, false);
    const older = `this checkout is older than what is stored, which was synced 3 h ago from commit ${
      late.slice(0, 10)
    } with changes by ann on ${hostname()}`;
    assert.deepEqual(asked, [[older]]);
    assert(textOf(report).includes(`! ${older}`), textOf(report));
    assert(textOf(report).includes(`from commit ${early.slice(0, 10)} with changes on ${hostname()}`), textOf(report));
    assert.equal(report.applied, false);
  });
});

Deno.test("each job that a sync changes is audited with it: its code, and the permissions that it gained", async () => {
  await withSync({ "a.ts": job('permissions: { net: ["one:1"] },'), "b.ts": job() }, async ({ sql, jobs, sync }) => {
    assertApplied(await sync());
    jobs.write("a.ts", job('priority: 7, permissions: { net: ["one:1", "two:2"], unsafe: { run: ["git"] } },'));
    jobs.remove("b.ts");
    await sync("plan");
    assertApplied(await sync());
    const acts = await sql<{ target_id: string; actor: string; reason: string; before: Act; after: Act }[]>`
      select target_id, actor, reason, before_json as before, after_json as after from admin_action_log
       where action = 'job.sync' and target_type = 'job' order by id`;
    assert.deepEqual(acts.map(({ target_id, after }) => [target_id, after?.change]), [
      ["a", "added"],
      ["b", "added"],
      ["a", "changed"],
      ["b", "removed"],
    ]);
    const [, , changed, removed] = acts;
    assert.deepEqual([changed?.actor, changed?.reason, changed?.after?.machine], ["ann", "a release", hostname()]);
    assert.deepEqual(changed?.before?.permissions, { net: ["one:1"] });
    assert.deepEqual(changed?.after?.permissions_gained, [
      { permission: "net", what: "two:2", unsafe: false },
      { permission: "run", what: "git", unsafe: true },
    ]);
    assert.deepEqual(changed?.after?.fields?.toSorted(), ["code", "permissions", "priority"]);
    assert.notEqual(changed?.before?.digest, changed?.after?.digest);
    assert.equal(removed?.before?.digest, acts[1]?.after?.digest);
  });
});

Deno.test("dev asks nothing in a database of its own; in one of others only as long as nobody else has synced", async () => {
  await withSync({ "a.ts": job(), "b.ts": job() }, async ({ sql, jobs, parts, sync }) => {
    const { signal: stop } = new AbortController();
    const said: string[] = [];
    const memory = { own_database: false };
    const follow = (own = memory) => syncJobs(parts, { stop, say: (text) => said.push(text), memory: own });
    const removed = async () => (await readDefinitions(sql)).filter((one) => one.removed_at).map((one) => one.name);
    assertApplied(await sync()); // somebody else's
    jobs.remove("b.ts");
    await follow();
    assert.deepEqual(await removed(), []);
    assert.match(said.at(-1) ?? "", /! 1 job would be removed: b(.|\n)*not applied; `deno task sync --yes` does/);
    jobs.write("b.ts", job());
    await follow(); // what is stored is what this folder says
    jobs.remove("b.ts");
    await follow();
    assert.deepEqual(await removed(), ["b"]);
    jobs.write("c.ts", job());
    assertApplied(await sync());
    jobs.remove("c.ts");
    await follow();
    assert.deepEqual(await removed(), ["b"], "somebody else has synced since");
    await follow({ own_database: true });
    assert.deepEqual(await removed(), ["b", "c"]);
  });
});

interface Act {
  change?: string;
  digest?: string;
  machine?: string;
  permissions?: unknown;
  permissions_gained?: unknown;
  fields?: string[];
}

async function syncedFrom({ sql }: Bench): Promise<unknown[]> {
  const [{ synced_by, machine, git_commit, git_dirty } = {} as never] = await listJobs(sql, "a");
  return [synced_by, machine, git_commit, git_dirty];
}

async function git({ dir }: JobFolder, at: string, ...args: string[]): Promise<string> {
  const who = ["-c", "user.name=ann", "-c", "user.email=ann@example.test", "-c", "commit.gpgsign=false"];
  const { success, stdout, stderr } = await new Deno.Command("git", {
    args: [...who, ...args],
    cwd: dir,
    env: { GIT_COMMITTER_DATE: at, GIT_AUTHOR_DATE: at },
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}
