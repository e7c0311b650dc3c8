/** The pages about events: what was emitted, what came of it, and emitting one by hand. */
import assert from "node:assert/strict";
import { emitEvent, takeEvents } from "../../../src/events/events.ts";
import { acquire, type Term } from "../../../src/nodes/leadership.ts";
import { withAdmin } from "../../support/admin.ts";
import { aDefinition } from "../../support/factories.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)> ' & {{7*7}}`;

Deno.test("an event shows what came of it: runs, one of another event in its place, or why there is none", async () => {
  await withAdmin(async ({ sql, login }) => {
    const term = await acquire(sql, { worker_id: "leader", lease_ms: 600_000, epoch_hint: 0 }) as Term;
    await aDefinition(sql, { name: "each", type: "event", event_types: ["device.changed"] });
    await aDefinition(sql, {
      name: "calm",
      type: "event",
      event_types: ["device.changed"],
      event_rules: { "device.changed": { throttle_seconds: 600, key: "{device}", where: { kind: "real" } } },
    });
    const emit = (payload: unknown, event_type = "device.changed") => emitEvent(sql, { event_type, payload });
    const first = await emit({ device: 7, kind: "real", note: EVIL });
    const second = await emit({ device: 7, kind: "real" });
    const unreal = await emit({ device: 7, kind: "test" });
    const alone = await emit({}, "nobody.waits");
    const browser = await login("viewer");
    assert.match(await browser.text(`/events/${first}`), /at the next tick/);
    assert.equal(
      [...(await browser.text("/events?which=unprocessed")).matchAll(/not processed yet<\/span>/g)].length,
      4,
    );
    await takeEvents(sql, term);
    const runs = await sql<{ id: number; event_id: number; name: string }[]>`
      select r.id, r.event_id, d.name from job_run r join job_definition d on d.id = r.job_definition_id`;
    const run_of = (event: number, name: string) => runs.find((run) => run.event_id === event && run.name === name)?.id;
    const page = await browser.text(`/events/${first}`);
    for (const name of ["each", "calm"]) assert(page.includes(`href="/runs/${run_of(first, name)}"`));
    assert.match(page, /&lt;script&gt;alert/);
    assert.doesNotMatch(page, /<script>|<img/);
    const absorbed = await browser.text(`/events/${second}`);
    assert.match(absorbed, /throttled/);
    assert(absorbed.includes(`href="/runs/${run_of(first, "calm")}"`), "it names the run there is instead");
    assert.match(await browser.text(`/events/${unreal}`), /did not match the job&#39;s condition/);
    assert.match(await browser.text(`/events/${alone}`), /No job is triggered by events of this type/);
    const list = await browser.text("/events?type=nobody.waits");
    assert.deepEqual([...list.matchAll(/href="\/events\/(\d+)"/g)].map(([, id]) => Number(id)), [alone]);
    assert.match(list, />no run</);
    assert.match(await browser.text("/events?which=unprocessed"), /No event matches/);
    assert.equal((await browser.get("/events/999")).status, 404);
    assert.equal((await browser.get("/events/new")).status, 403);
    assert.doesNotMatch(await browser.text("/events"), /<script>|<img/);
  });
});

Deno.test("one that is emitted by hand is audited, counts once by its key, and loses nothing that was typed wrong", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("operator");
    const wrong = await browser.post("/events/new", { type: "a.b", payload: `{"x": ${EVIL}` });
    assert.equal(wrong.status, 400);
    const again = await wrong.text();
    assert.match(again, /this is no JSON/);
    assert.match(again, /<textarea[^>]*>\{&quot;x&quot;: &quot;&gt;&lt;script/);
    assert.doesNotMatch(again, /<script>|<img/);
    assert.match(await (await browser.post("/events/new", { type: "", payload: "{}" })).text(), /without a type/);
    const given = { type: EVIL, payload: `{"x": 1}`, dedupe_key: EVIL, reason: "by hand" };
    const made = await browser.post("/events/new", given);
    const id = Number(/^\/events\/(\d+)$/.exec(made.headers.get("location") ?? "")?.[1]);
    const page = await browser.text(`/events/${id}`);
    assert.match(page, /is emitted/);
    assert.doesNotMatch(page, /<script>|<img/);
    assert.equal((await browser.post("/events/new", given)).headers.get("location"), `/events/${id}`);
    const other = await browser.post("/events/new", { ...given, type: "another" });
    assert.equal(other.status, 400);
    assert.match(await other.text(), /belongs to event/);
    browser.cookies.set("dandori_lang", "ja");
    assert.match(
      await (await browser.post("/events/new", { ...given, type: "another" })).text(),
      /別のイベントの種類/,
    );
    browser.cookies.delete("dandori_lang");
    assert.equal((await sql`select from event`).length, 1);
    const acts = await sql`select actor, reason from admin_action_log where action = 'event.emit'`;
    assert.deepEqual(acts.map((act) => ({ ...act })), [{ actor: "user:operator", reason: "by hand" }]);
    assert.match(await browser.text(`/events/new?of=${id}`), /&quot;x&quot;: 1/);
  });
});

Deno.test("who emits what fits none of the jobs for its type is told at once, in both languages", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aDefinition(sql, { name: "strict", event_types: ["a.b"], event_rules: { "a.b": { where: { zone: "x" } } } });
    const browser = await login("operator");
    const emitted = async (payload: string) => {
      const made = await browser.post("/events/new", { type: "a.b", payload });
      return await browser.text(made.headers.get("location") ?? "");
    };
    assert.match(
      await emitted('{"zone":"y"}'),
      /its payload matches none of the 1 jobs that its type triggers: strict/,
    );
    assert.doesNotMatch(await emitted('{"zone":"x"}'), /fits none/);
    await browser.post("/preferences", { lang: "ja" });
    assert.match(await emitted('{"zone":"y"}'), /ペイロードはこの種類を待つジョブ（1 件）のどれにも合いません: strict/);
  });
});

Deno.test("events are listed page after page, and each once", async () => {
  await withAdmin(async ({ sql, login }) => {
    await sql`insert into event (event_type) select 'many' from generate_series(1, 120)`;
    const browser = await login("viewer");
    const ids = (text: string) => [...text.matchAll(/href="\/events\/(\d+)"/g)].map(([, id]) => Number(id));
    const link = (text: string, name: string) =>
      new RegExp(`href="([^"]+)">${name}<`).exec(text)?.[1]?.replaceAll("&amp;", "&") as string;
    const first = await browser.text("/events?type=many");
    const second = await browser.text(link(first, "Older"));
    const third = await browser.text(link(second, "Older"));
    assert.deepEqual([first, second, third].map((text) => ids(text).length), [50, 50, 20]);
    assert.equal(new Set([first, second, third].flatMap(ids)).size, 120);
    assert.deepEqual(ids(await browser.text(link(third, "Newer"))), ids(second));
  });
});
