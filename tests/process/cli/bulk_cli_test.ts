/** `bulk` from the command line: made, changed, shown, and clear words for what cannot be. */
import assert from "node:assert/strict";
import { cliWith } from "../../support/cli.ts";
import { numbered, withBulks } from "../../support/bulk_scene.ts";

Deno.test("a bulk is made, looked at, changed and repeated from the command line, with its audit", () =>
  withBulks(async (scene) => {
    const { sql, database_url } = scene;
    const bulk = cliWith({ DATABASE_URL: database_url });
    const cli = async (...args: string[]) => {
      const said = await bulk("bulk", ...args, "--json");
      assert.equal(said.code, 0, said.out + said.err);
      return JSON.parse(said.out);
    };
    const query = "select jsonb_build_object('n', n) as args from generate_series(1, 30) n";
    const made = await cli("start", "each", "--sql", query, "--parallel", "4", "--name", "wipe", "--max-failures", "5");
    assert.deepEqual(made, { id: made.id, is_new: true, items: 30 });
    const id = String(made.id);
    for (let turn = 0; turn < 6; turn++) {
      await scene.round();
      await scene.end(made.id, 1, turn === 0 ? "FAILED" : "SUCCEEDED");
    }
    await scene.round();
    const shown = await cli("show", id);
    assert.deepEqual([shown.items, shown.fed, shown.running, shown.succeeded, shown.failed, shown.progress], [
      30,
      10,
      4,
      5,
      1,
      0.2,
    ]);
    assert(shown.done_from <= shown.done_to && shown.per_minute > 0);
    const set = await cli(
      "set",
      id,
      "--parallel",
      "2",
      "--interval",
      "0.5",
      "--priority",
      "admin.low",
      "--max-failures",
      "none",
    );
    assert.deepEqual([set.parallel, set.interval_seconds, set.priority, set.max_failures], [2, 0.5, 320, null]);
    const { now, at } = await cli("whatif", id, "--parallel", "20");
    assert.equal(at.at_once, 20);
    assert(at.done_to < now.done_to);
    assert.equal((await cli("pause", id, "--reason", "lunch")).state, "PAUSED");
    assert.equal((await cli("resume", id)).state, "RUNNING");
    const again = await cli("retry", id);
    assert.deepEqual(again, { id: again.id, retry_of: made.id, items: 1 });
    assert.equal((await cli("cancel", id)).state, "CANCELED");
    assert.deepEqual((await cli("ls", "--open")).map((one: { id: number }) => one.id), [again.id, made.id]);
    const acts = await sql`select action, actor like 'cli:%' as mine from admin_action_log order by id`;
    const expected = ["start", "set", "pause", "resume", "retry", "cancel"];
    assert.deepEqual(acts.map((act) => [act.action, act.mine]), expected.map((verb) => [`bulk.${verb}`, true]));
  }));

Deno.test("items come from a file of lines; text is for people; what cannot be is said with its cause", () =>
  withBulks(async (scene) => {
    const bulk = cliWith({ DATABASE_URL: scene.database_url });
    const file = Deno.makeTempFileSync();
    try {
      Deno.writeTextFileSync(file, [...numbered(3)].map((item) => JSON.stringify(item)).join("\n\n"));
      const made = await bulk("bulk", "start", "each", "--items", file);
      assert.match(made.out, /^bulk 1 created, with 3 items; see `deno task bulk show 1`/);
      Deno.writeTextFileSync(file, '{"n":1}\nnonsense\n');
      const broken = await bulk("bulk", "start", "each", "--items", file);
      assert.deepEqual([broken.code, /Cannot read line 2 of .*not JSON/.test(broken.err)], [1, true], broken.err);
      await scene.sql`update job_definition set args_schema = ${
        scene.sql.json({ type: "object", properties: { n: { type: "integer" } }, required: ["n"] })
      } where name = 'each'`;
      Deno.writeTextFileSync(file, '{"n":1}\n\n{"n":"two"}\n');
      const unfit = await bulk("bulk", "start", "each", "--items", file);
      assert.match(unfit.err, /Cannot start a bulk of "each": line 3 of \S+ do not fit: n: /);
      const text = (await bulk("bulk", "show", "1")).out;
      assert.match(
        text,
        /^bulk +1 of each\nstate +RUNNING\nsettings +parallel 10, interval 0 s, priority 240\nprogress +0 %\nitems +3: 3 not started yet\n/,
      );
    } finally {
      Deno.removeSync(file);
    }
    const refusals: [string[], number, RegExp][] = [
      [["show", "9"], 1, /Cannot find bulk "9": there is no such bulk/],
      [["pause", "x"], 2, /Cannot use "x" as a bulk's id/],
      [["set", "1"], 2, /Cannot change bulk "1": no option is given; give at least one of --parallel/],
      [
        ["set", "1", "--parallel", "-3"],
        2,
        /Cannot change a bulk while it runs: parallel: must be a whole number from 1 to 1000000/,
      ],
      [["start", "each"], 2, /either --sql QUERY or --items FILE/],
      [["start", "nobody", "--sql", "select 1 as args"], 1, /Cannot start a bulk of "nobody": no such job, known are/],
      [["retry", "1"], 1, /none of its runs failed/],
    ];
    for (const [args, code, expected] of refusals) {
      const said = await bulk("bulk", ...args);
      assert.deepEqual(
        [said.code, expected.test(said.err)],
        [code, true],
        `${args.join(" ")}: ${said.code} ${said.err}`,
      );
    }
    assert.equal((await scene.sql`select from bulk`).length, 1);
  }));
