/** The page about the queue: what waits and why, stopping and letting go, resources. */
import assert from "node:assert/strict";
import { type AdminScene, withAdmin } from "../../support/admin.ts";
import { aDefinition, aRun } from "../../support/factories.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)> ' & {{7*7}}`;

const actions = async ({ sql }: Pick<AdminScene, "sql">) =>
  (await sql<{ action: string; reason: string }[]>`
    select action, reason from admin_action_log where actor = 'user:operator' and action <> 'user.login' order by id`)
    .map(({ action, reason }) => `${action}: ${reason}`);

Deno.test("what waits and runs is told job by job; all, a job or a key are stopped and let go, each named, asked and audited", async () => {
  await withAdmin(async (on) => {
    const { sql, login } = on;
    const of = await aDefinition(sql, { name: "export" });
    await aRun(sql, { job_definition_id: of.id });
    await aRun(sql, { job_definition_id: of.id, serial_key: EVIL });
    await aRun(sql, { job_definition_id: of.id, state: "RUNNING" });
    const browser = await login("operator");
    const before = await browser.text("/queue");
    assert.match(before, /href="\/runs\?job=export&amp;state=PENDING&amp;state=RETRYING&amp;state=ORPHANED">2</);
    assert.match(before, /No serial key is paused/);
    for (const [query, title] of [["&all=yes", "Pause all dispatch?"], ["&job=export", "Pause job export?"]]) {
      const page = await browser.text(`/queue/pause?do=pause${query}`);
      assert(page.includes(title as string));
      assert.match(page, /2 runs are waiting and 1 are running/);
    }
    const key = `&key=${encodeURIComponent(EVIL)}`;
    const asked = await browser.text(`/queue/pause?do=pause${key}`);
    assert.match(asked, /1 runs are waiting and 0 are running/);
    assert.doesNotMatch(asked, /<script>|<img/);
    for (const what of ["&all=yes", "&job=export", key]) {
      await browser.post(`/queue/pause?do=pause${what}`, { reason: EVIL });
    }
    const stopped = await browser.text("/queue");
    assert.match(stopped, /All dispatch is paused/);
    const why = "&quot;&gt;&lt;script"; // an operator at night looks for who and why
    assert.match(stopped, new RegExp(`role="alert".*By user:operator: ${why}.*<section>`, "s"));
    assert.match(stopped, new RegExp(`/jobs/export.*paused by user:operator: ${why}`, "s"));
    assert.match(await browser.text("/jobs/export"), new RegExp(`Paused by user:operator.*<q>${why}`, "s"));
    assert.match(stopped, /do=resume&amp;key=/);
    assert.doesNotMatch(stopped, /<script>|<img/);
    const first = await browser.text("/overview"); // where they come to
    assert.match(
      first,
      new RegExp(`role="alert".*All dispatch is paused.*href="/queue".*By user:operator: ${why}`, "s"),
    );
    assert.match(first, /href="\/queue">paused: 1 job, 1 serial key</);
    await browser.post("/queue/pause?do=pause&job=export", {});
    assert.match(await browser.text("/queue"), /is already in this state/);
    for (const what of ["&all=yes", "&job=export", key]) {
      await browser.post(`/queue/pause?do=resume${what}`, { reason: "over" });
    }
    const after = await browser.text("/queue");
    assert.match(after, /Runs are dispatched/);
    assert.match(after, /No serial key is paused/);
    assert.deepEqual(await actions(on), [
      `settings.change: ${EVIL}`,
      `job.pause: ${EVIL}`,
      `serial_key.stop: ${EVIL}`,
      "settings.change: over",
      "job.resume: over",
      "serial_key.free: over",
    ]);
  });
});

Deno.test("what is not said clearly is neither asked nor done, and a viewer stops nothing", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aDefinition(sql, { name: "export" });
    const browser = await login("operator");
    for (
      const bad of [
        "",
        "?do=burn",
        "?do=pause",
        "?do=resume",
        "?do=pause&all=no",
        "?do=pause&all=yes&job=a",
        "?do=pause&all=yes&job=",
        "?do=pause&job=a&key=b",
        "?do=pause&job=",
      ]
    ) {
      assert.equal((await browser.get(`/queue/pause${bad}`)).status, 400);
      assert.equal((await browser.post(`/queue/pause${bad}`, {})).status, 400);
    }
    await browser.post("/queue/pause?do=pause&job=nobody", {});
    assert.match(await browser.text("/queue"), /none of that name was ever synced/);
    const viewer = await login("viewer");
    assert.equal((await viewer.get("/queue/pause?do=pause&all=yes")).status, 403);
    assert.equal((await viewer.post("/queue/pause?do=pause&all=yes", {})).status, 403);
    assert.doesNotMatch(await viewer.text("/queue"), /queue\/pause|data-opens/);
  });
});

Deno.test("resources are set and taken away, and what makes no sense changes nothing", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("operator");
    const set = (name: string, capacity: string) =>
      browser.post("/queue/resources", { name, capacity, reason: "bought" });
    await set(EVIL, "3");
    const page = await browser.text("/queue");
    assert.match(page, /now has capacity 3/);
    assert.match(page, /<meter/);
    assert.doesNotMatch(page, /<script>|<img/);
    await set(EVIL, "3");
    assert.match(await browser.text("/queue"), /already has this capacity/);
    await set("license", "-1");
    assert.match(await browser.text("/queue"), /number from 0 to/);
    await set("", "1");
    assert.match(await browser.text("/queue"), /Give a name/);
    assert.equal((await sql`select from resource`).length, 1);
    await browser.post("/queue/resources/remove", { name: EVIL });
    assert.match(await browser.text("/queue"), /Resource .* is removed/);
    await browser.post("/queue/resources/remove", { name: EVIL });
    assert.match(await browser.text("/queue"), /there is none of that name/);
    assert.equal((await sql`select from admin_action_log where action = 'resource.set'`).length, 2);
  });
});
