/** How `dev` follows the jobs folder. */
import assert from "node:assert/strict";
import { Wakeup } from "../../../src/platform/timers.ts";
import { watchJobs } from "../../../src/dev/jobs.ts";
import { type JobFolder, withJobs } from "../../support/job_files/folder.ts";
import { waitFor } from "../../support/waiting.ts";

Deno.test("files that come, change and go are seen, in folders as well", async () => {
  await watched(async (jobs, seen) => {
    await seen(() => jobs.write("a.ts", "1"));
    await seen(() => jobs.write("a.ts", "2"));
    await seen(() => jobs.write("_shared/deep/x.ts", "1"));
    await seen(() => jobs.write("_shared/deep/x.ts", "2"));
    await seen(() => jobs.remove("_shared/deep/x.ts"));
  });
});

Deno.test("what names the packages is seen to change, too: a job that imports one is then no longer wrong", async () => {
  await watched(async (jobs, seen) => {
    const file = `${jobs.dir}/../deno.json`;
    await seen(() => Deno.writeTextFileSync(file, "{}"));
    await seen(() => Deno.writeTextFileSync(file, '{ "imports": {} }'));
    await seen(() => Deno.removeSync(file));
  });
});

Deno.test("a pipe in the folder keeps nobody from seeing what changes, nor from stopping", async () => {
  await watched(async (jobs, seen) => {
    const { success } = await new Deno.Command("mkfifo", { args: [jobs.path("pipe.ts")] }).output();
    assert(success);
    await seen(() => jobs.write("a.ts", "1"));
    await seen(() => jobs.remove("pipe.ts"));
  });
});

Deno.test("a folder that goes is told of once, and seen again when it is back", async () => {
  const said = await watched(async (jobs, seen) => {
    await Deno.rename(jobs.dir, `${jobs.dir}-away`);
    await seen.said();
    await seen(() => Deno.renameSync(`${jobs.dir}-away`, jobs.dir));
  });
  assert.equal(said.length, 1, said.join("\n"));
  assert.match(said[0]!, /^there is no folder .*jobs; it is looked for$/);
});

interface Seen {
  /** Changes something, and waits until `changed` was called after that. */
  (change: () => void): Promise<void>;
  /** Waits until something has been said. */
  said(): Promise<void>;
}

/** Gives what was said meanwhile. */
async function watched(test: (jobs: JobFolder, seen: Seen) => Promise<void>): Promise<string[]> {
  return await withJobs({}, async (jobs) => {
    const stop = new AbortController();
    const [changes, words] = [new Wakeup(), new Wakeup()];
    const said: string[] = [];
    const say = (text: string) => {
      said.push(text);
      words.signal();
    };
    const changed = () => Promise.resolve(changes.signal());
    const watching = watchJobs({ jobs_dir: jobs.dir, project_dir: `${jobs.dir}/..` }, {
      stop: stop.signal,
      say,
      changed,
    });
    await waitFor("the first look", async () => { // what is there before that is no change
      jobs.write("first.ts", crypto.randomUUID());
      return await changes.rest(500) || undefined;
    });
    const seen = async (change: () => void) => {
      change();
      await changes.rest(0);
      assert(await changes.rest(30_000), "nobody saw the change");
    };
    await test(jobs, Object.assign(seen, { said: async () => assert(await words.rest(30_000), "nothing was said") }));
    stop.abort();
    await watching;
    return said;
  });
}
