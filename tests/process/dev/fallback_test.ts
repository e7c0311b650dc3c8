/** The whole path on a machine without a Redis: dev, a job file, a finished run, with js-redis-server as the stand-in. */
import assert from "node:assert/strict";
import { pathWithout, withDevFolder } from "../../support/dev_process.ts";
import { processesWith } from "../../support/processes.ts";

Deno.test("without a Redis on PATH a job file still becomes a finished run", async () => {
  await withDevFolder(async (folder) => {
    folder.writeJob(
      "greet.ts",
      `import { defineJob } from "dandori";
       import { z } from "zod";
       export default defineJob({
         args: z.object({ name: z.string() }),
         on: "visitor.came",
         run({ args, log }) {
           log.info("greeting");
           return { greeted: args.name };
         },
       });`,
    );
    const PATH = pathWithout(`${folder.dir}/bin`, ["redis-server", "valkey-server"]);
    const dev = folder.start({ env: { PATH } });
    await dev.says(/DEVELOPMENT ONLY.*js-redis-server/);
    await dev.says(/^ready /);
    assert.equal(processesWith(folder.dir).some(({ command }) => /(redis|valkey)-server \*?127/.test(command)), false);

    const ran = await folder.run("run", "greet", "--args", '{"name":"you"}', "--wait", "--json");
    assert.equal(ran.code, 0, ran.stderr + dev.printed);
    assert.deepEqual((JSON.parse(ran.stdout) as { result: unknown }).result, { greeted: "you" });

    const emitted = await folder.run("emit", "visitor.came", "--payload", '{"name":"them"}', "--json");
    assert.equal(emitted.code, 0, emitted.stderr);
    await dev.says(/run \d+ greet SUCCEEDED/, { after: await dev.says(/run \d+ greet SUCCEEDED/) });

    dev.kill("SIGINT");
    assert.equal((await dev.ended).code, 0, dev.printed);
  });
});
