/** The file of outcomes that Postgres has not confirmed. */
import assert from "node:assert/strict";
import { fileNameOf, identityIn, journalsFolder, readJournal } from "../../../src/worker/results/result_journal.ts";
import { DEAD, endingOf, opened, said, withFolder } from "../../support/estates.ts";

Deno.test("an outcome is in the file from its end until Postgres has answered, for its owner's eyes alone", async () => {
  await withFolder(async ({ state_dir, path }) => {
    const journal = opened(state_dir);
    assert.equal(Deno.statSync(path).size, 0);
    journal.keep(endingOf(1));
    journal.keep(endingOf(2));
    journal.keep(endingOf(2));
    await Promise.resolve(); // what ends in one turn is written together
    assert.deepEqual(await readJournal(path), [endingOf(1), endingOf(2)]);
    assert.equal((Deno.statSync(path).mode as number) & 0o777, 0o600);
    assert.equal((Deno.statSync(journalsFolder(state_dir)).mode as number) & 0o777, 0o700);
    journal.drop(endingOf(1));
    assert((await readJournal(path)).some(({ job_run_id }) => job_run_id === 2), "that one still waits");
    journal.drop(endingOf(2));
    assert.equal(Deno.statSync(path).size, 0);
    journal.keep(endingOf(3));
    assert.equal(journal.waiting, 1);
    journal.close(false);
    assert.deepEqual(await readJournal(path), [endingOf(3)]);
  });
});

Deno.test("a file that is never empty stays small, and holds what waits", async () => {
  await withFolder(async ({ state_dir, path }) => {
    const journal = opened(state_dir);
    const result = "x".repeat(10_000);
    journal.keep(endingOf(1));
    for (let id = 2; id < 500; id++) {
      journal.keep(endingOf(id, { result }));
      if (id > 2) journal.drop(endingOf(id - 1));
    }
    assert(Deno.statSync(path).size < 2_000_000);
    assert.deepEqual((await readJournal(path)).filter(({ job_run_id }) => [1, 499].includes(job_run_id)).length, 2);
    journal.drop(endingOf(1));
    journal.drop(endingOf(499));
    assert.equal(journal.waiting, 0);
    journal.close(true);
    assert.deepEqual([...Deno.readDirSync(journalsFolder(state_dir))], []);
  });
});

Deno.test("a line that was torn, or is no outcome, spoils no other", async () => {
  await withFolder(async ({ state_dir, path }) => {
    const journal = opened(state_dir);
    journal.keep(endingOf(1));
    const whole = JSON.stringify(endingOf(2));
    Deno.writeTextFileSync(path, `\n${whole.slice(0, 40)}`, { append: true });
    journal.keep(endingOf(3));
    Deno.writeTextFileSync(path, `\nnull\n[]\n{"job_run_id":"4"}\n\0\xff\n${whole.slice(0, -1)}`, { append: true });
    assert.deepEqual(await readJournal(path), [endingOf(1), endingOf(3)]);
  });
});

Deno.test("a full disk does not stop a worker, and is said once", async () => {
  await withFolder(({ state_dir, path, facts }) => {
    Deno.mkdirSync(journalsFolder(state_dir));
    Deno.symlinkSync("/dev/full", path);
    const journal = opened(state_dir);
    for (let id = 1; id < 5; id++) {
      journal.keep(endingOf(id));
      journal.drop(endingOf(id));
    }
    journal.close(true);
    assert.deepEqual(said(facts, "spool.failed").map(({ fact }) => /No space/.test(String(fact.error))), [true]);
  });
  await withFolder(({ state_dir, facts }) => {
    Deno.writeTextFileSync(journalsFolder(state_dir), "not a folder");
    const journal = opened(state_dir);
    journal.keep(endingOf(1));
    journal.drop(endingOf(1));
    assert.equal(journal.waiting, 0);
    journal.close(true);
    assert.equal(said(facts, "spool.failed").length, 1);
  });
});

Deno.test("a file's name says whose it is; others are left alone", () => {
  assert.deepEqual(identityIn(fileNameOf(DEAD)), DEAD);
  const unknown = { ...DEAD, process_started: "", host: "" };
  assert.deepEqual(identityIn(fileNameOf(unknown)), unknown);
  for (const name of ["", ".gitignore", `${fileNameOf(DEAD)}.new`, `${fileNameOf(DEAD)}/..`, "w1_2_3_4"]) {
    assert.equal(identityIn(name), undefined, name);
  }
});

Deno.test("a file that is written anew while more waits than it may hold is one that an heir reads", async () => {
  await withFolder(async ({ state_dir, path }) => {
    const journal = opened(state_dir);
    const large = "x".repeat(1024 * 1024 - 2);
    for (let id = 1; id <= 70; id++) journal.keep(endingOf(id, { result: large }));
    await Promise.resolve();
    const written = (await readJournal(path)).length;
    assert(written >= 60 && written < 70, `${written} of 70 had room`);
    journal.drop(endingOf(1));
    const kept = await readJournal(path);
    assert.equal(kept.length, written);
    assert(kept.every(({ job_run_id }) => job_run_id !== 1), "what Postgres has recorded is gone");
    journal.close(false);
  });
});
