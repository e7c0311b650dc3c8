/** Alerts open and close once, are told to a webhook signed and at least once, and nothing of its address gets out. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { saidText } from "../../../src/locale/locale.ts";
import { ConfigError, readConfig } from "../../../src/platform/config.ts";
import { hear } from "../../../src/platform/facts.ts";
import { rest } from "../../../src/platform/timers.ts";
import { makeCertificate } from "../../../src/rpc/certificates.ts";
import { deliverDue } from "../../../src/alerts/alert_delivery.ts";
import { checkLeaderOnce } from "../../../src/cluster/leader_alert.ts";
import { LocalWorkerState } from "../../../src/worker/worker_state.ts";
import {
  ackAlert,
  claimDeliveries,
  judgeAlerts,
  listAlerts,
  readDelivery,
  recordDelivery,
  requestTest,
  trimAlerts,
} from "../../../src/alerts/alerts.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { recordCheck } from "../../../src/nodes/node_health.ts";
import { resign, type Term } from "../../../src/nodes/leadership.ts";
import { rollUp } from "../../../src/stats/run_stats.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import { forceClose } from "../../../src/runs/states.ts";
import { LIMITS } from "../../support/alert_limits.ts";
import { cliWith } from "../../support/cli.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { english } from "../../../src/locale/english.ts";

const LONG_AGO = new Date(Date.UTC(2026, 0, 1));

async function judged(sql: Sql, term: Term): Promise<string[]> {
  const changes = await judgeAlerts(sql, term, LIMITS);
  return changes.map(({ kind, subject, what }) => `${what} ${kind} ${subject}`).sort();
}

interface Heard {
  headers: Headers;
  body: string;
}

/** A receiver on this machine that answers as it is told. */
async function withReceiver(
  answer: (heard: Heard[]) => Response | Promise<Response>,
  act: (url: string, heard: Heard[]) => Promise<void>,
  tls?: { cert: string; key: string },
): Promise<void> {
  const heard: Heard[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {}, ...tls }, async (request) => {
    heard.push({ headers: request.headers, body: await request.text() });
    return await answer(heard);
  });
  try {
    await act(`${tls ? "https" : "http"}://127.0.0.1:${server.addr.port}/hook?token=very-secret`, heard);
  } finally {
    await server.shutdown();
  }
}

Deno.test("each condition opens its alert once and closes it when it is over", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    assert.deepEqual(await judged(sql, term), []);
    const job = await aDefinition(sql, { name: "late" });
    const { id: overdue } = await aRun(sql, { job_definition_id: job.id, due_at: LONG_AGO });
    const paused = await aDefinition(sql, { name: "paused", paused_at: LONG_AGO });
    await aRun(sql, { job_definition_id: paused.id, due_at: LONG_AGO });
    await aRun(sql, { due_at: LONG_AGO, serial_key: "k", held: true });
    await sql`insert into serial_key_pause (serial_key, stopped_by) values ('device:7', 'system'), ('device:8', 'alice')`;
    await sql`insert into bulk (job_definition_id, name, state, changed_by)
              values (${job.id}, 'import', 'PAUSED', 'system'), (${job.id}, '', 'PAUSED', 'alice')`;
    const worker = await aWorker(sql, {
      worker_id: "w1",
      tls_not_after: new Date(Date.now() + 3 * 86_400_000),
      clock_skew_ms: -4_000,
    });
    await aWorker(sql, { worker_id: "w2", node_id: "gone", state: "DEAD", dead_epoch: 1, ended_at: LONG_AGO });
    await aWorker(sql, { worker_id: "w3", node_id: "left", state: "DEAD", ended_at: LONG_AGO });
    await aWorker(sql, { worker_id: "w4", node_id: "kept", state: "DEAD", dead_epoch: 1, ended_at: LONG_AGO });
    await sql`update node set status = 'unavailable', checked_at = clock_timestamp(), is_active = node_id <> 'kept' where node_id <> 'here'`;
    const opened = [
      "opened bulk.paused 1",
      "opened certificate.expiring here",
      "opened clock.skewed here",
      "opened key.blocked device:7",
      "opened node.away gone",
      "opened run.overdue late",
    ];
    assert.deepEqual(await judged(sql, term), opened);
    assert.deepEqual(await judged(sql, term), [], "opened twice");
    const [bulk] = await sql`select message, detail from alert where kind = 'bulk.paused'`;
    assert.equal(english(bulk?.message), '"import" of job late: too much of it failed');
    assert.deepEqual(bulk?.detail, { bulk_id: 1, name: "import", job_name: "late" });
    await forceClose(sql, overdue, { actor: "test", reason: "test" });
    await sql`delete from serial_key_pause`;
    await sql`update bulk set state = 'RUNNING'`;
    await sql`update worker set tls_not_after = null, clock_skew_ms = 0 where worker_id = ${worker.worker_id}`;
    await sql`update node set status = 'available'`;
    assert.deepEqual(await judged(sql, term), opened.map((line) => line.replace("opened", "closed")));
    assert.deepEqual(await judged(sql, term), []);
    assert.equal((await sql`select from alert_delivery`).length, 2 * opened.length);
  });
});

Deno.test("a slot that has no run is overdue, unless somebody paused its schedule", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id } = await aDefinition(sql, { name: "nightly" });
    await sql`
      insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, timezone, last_slot, next_slot)
      values (${id}, 'n', 'cron', '* * * * *', 'UTC', ${LONG_AGO}, ${LONG_AGO})`;
    assert.deepEqual(await judged(sql, term), ["opened run.overdue nightly"]);
    await sql`update job_schedule set paused_at = clock_timestamp(), paused_by = 'alice'`;
    assert.deepEqual(await judged(sql, term), ["closed run.overdue nightly"]);
  });
});

Deno.test("a job that failed for good stays an alert until a run of it succeeds or somebody has seen it", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql, { name: "shaky" });
    const fail = async () => {
      await forceClose(sql, (await aRun(sql, { job_definition_id })).id, { actor: "test", reason: "test" });
      await rollUp(sql, term);
    };
    await fail();
    assert.deepEqual(await judged(sql, term), ["opened run.failed shaky"]);
    await fail();
    assert.deepEqual(await judged(sql, term), []);
    const [open] = await listAlerts(sql, { open: true });
    assert.equal(await ackAlert(sql, open?.id ?? 0, { actor: "alice", reason: "known" }), true);
    assert.equal(await ackAlert(sql, open?.id ?? 0, { actor: "bob", reason: "known" }), false);
    assert.deepEqual(await judged(sql, term), ["closed run.failed shaky"]);
    assert.deepEqual(await judged(sql, term), []);
    await fail();
    assert.deepEqual(await judged(sql, term), ["opened run.failed shaky"]);
    await sql`update run_stat set last_succeeded_at = clock_timestamp() where job_definition_id = ${job_definition_id}`;
    assert.deepEqual(await judged(sql, term), ["closed run.failed shaky"]);
    const [audit] = await sql`select actor, reason from admin_action_log where action = 'alert.ack'`;
    assert.deepEqual({ ...audit }, { actor: "alice", reason: "known" });
  });
});

Deno.test("a node that somebody has seen to be away is said again only when it was there meanwhile, however often it is checked", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { worker_id } = await aWorker(sql, { node_id: "gpu-1" });
    const check = async (problem: string | null) => {
      const result = { worker_id, problem, parts: [] };
      const status = problem ? "unavailable" : "available";
      const pace = { check_seconds: 300, retry_seconds: 60, retry_count: 3, recheck_seconds: 30 };
      assert(await recordCheck(sql, term, { node_id: "gpu-1", due: "", status, result }, pace));
    };
    const ack = async () => {
      const [open] = await listAlerts(sql, { open: true });
      assert(await ackAlert(sql, open?.id ?? 0, { actor: "alice", reason: "a new disk is ordered" }));
    };
    await check(null);
    await check("disk: 3 MB free");
    assert.deepEqual(await judged(sql, term), ["opened node.away gpu-1"]);
    await ack();
    assert.deepEqual(await judged(sql, term), ["closed node.away gpu-1"]);
    await check("disk: 2 MB free");
    assert.deepEqual(await judged(sql, term), [], "nothing is new");
    await check(null);
    await check("disk: 1 MB free");
    assert.deepEqual(await judged(sql, term), ["opened node.away gpu-1"]);
  });
});

Deno.test("a node whose worker is being replaced is not away: that nobody was there is old when the next one comes", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const gone = await aWorker(sql, { node_id: "gpu-1" });
    const check = async (worker_id: string | null) => {
      const result = { worker_id, problem: "connection: nobody", parts: [] };
      const pace = { check_seconds: 300, retry_seconds: 60, retry_count: 3, recheck_seconds: 30 };
      const judgement = { node_id: "gpu-1", due: "", status: "unavailable" as const, result };
      assert(await recordCheck(sql, term, judgement, pace));
    };
    await sql`update worker set state = 'DEAD', dead_epoch = 1 where worker_id = ${gone.worker_id}`;
    await check(null);
    const { worker_id } = await aWorker(sql, { node_id: "gpu-1" });
    assert.deepEqual(await judged(sql, term), []);
    await check(worker_id);
    assert.deepEqual(await judged(sql, term), ["opened node.away gpu-1"], "it is there and does not answer");
    await aWorker(sql, { node_id: "gpu-1" });
    assert.deepEqual(await judged(sql, term), [], "that holds until another check");
  });
});

Deno.test("what somebody has seen is not news again when its alert was kept long enough", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql, { name: "shaky" });
    await forceClose(sql, (await aRun(sql, { job_definition_id })).id, { actor: "test", reason: "test" });
    await rollUp(sql, term);
    await judged(sql, term);
    const [open] = await listAlerts(sql, { open: true });
    await ackAlert(sql, open?.id ?? 0, { actor: "alice", reason: "known" });
    assert.deepEqual(await judged(sql, term), ["closed run.failed shaky"]);
    await sql`update alert set closed_at = closed_at - interval '500 days'`;
    await trimAlerts(sql, term, 400);
    assert.deepEqual(await judged(sql, term), []);
    await sql`insert into alert (kind, subject, message, opened_by, closed_at) values ('run.failed', 'shaky', '', 'leader', '2020-01-01')`;
    await trimAlerts(sql, term, 400);
    assert.equal((await listAlerts(sql)).length, 1, "that one alone");
  });
});

Deno.test("that nobody leads, and that due work does not start, is seen by those who do not lead", async () => {
  await withStores(async ({ sql }) => {
    const settings = { ...DEFAULT_SETTINGS, alert_no_leader_seconds: 30, alert_overdue_seconds: 60 };
    const local = new LocalWorkerState({ worker_id: "w9", node_id: "n", slots: 1, settings });
    const open = async () =>
      (await listAlerts(sql, { open: true })).map(({ kind, opened_by }) => `${kind} ${opened_by}`).sort();
    await checkLeaderOnce({ sql, local });
    assert.deepEqual(await open(), [], "before anybody ever led");
    const term = await aTerm(sql);
    await aRun(sql, { due_at: LONG_AGO });
    await sql`update leader_term set lease_until = clock_timestamp() - interval '1 second', acquired_at = '2026-01-01'`;
    await checkLeaderOnce({ sql, local });
    assert.deepEqual(await open(), [], "another one may just be taking over");
    await sql`update leader_term set lease_until = clock_timestamp() - interval '1 minute'`;
    await Promise.all([1, 2, 3].map(() => checkLeaderOnce({ sql, local })));
    assert.deepEqual(await open(), ["leader.none w9"]);
    local.role = "subleader";
    await checkLeaderOnce({ sql, local });
    assert.deepEqual(await open(), ["leader.none w9", "run.overdue w9"]);
    await sql`update leader_term set lease_until = clock_timestamp() + interval '1 minute'`;
    await judgeAlerts(sql, term, LIMITS);
    assert.deepEqual(await open(), ["run.overdue w9"], "the leader closes what is over, and only that");
    await resign(sql, term);
    local.role = "leader";
    await sql`update leader_term set acquired_at = '2026-01-01'`;
    await checkLeaderOnce({ sql, local });
    assert.deepEqual(await open(), ["run.overdue w9"], "who leads does not look at itself");
  });
});

Deno.test("a leader that steps down well is missed from then on, however long it has led", async () => {
  await withStores(async ({ sql }) => {
    const local = new LocalWorkerState({ worker_id: "w9", node_id: "n", slots: 1, settings: DEFAULT_SETTINGS });
    const term = await aTerm(sql);
    await sql`update leader_term set acquired_at = '2026-01-01'`;
    await resign(sql, term);
    await checkLeaderOnce({ sql, local });
    assert.equal((await listAlerts(sql, { open: true })).length, 0, "another one will lead in a moment");
    await sql`update leader_term set resigned_at = clock_timestamp() - interval '31 seconds'`;
    await checkLeaderOnce({ sql, local });
    const [alert] = await listAlerts(sql, { open: true });
    const [row] = await sql<{ resigned_at: Date }[]>`select resigned_at from leader_term`;
    assert.equal(english(alert?.message ?? ""), `no leader since ${row?.resigned_at.toISOString().slice(0, 19)}Z`);
  });
});

Deno.test("the webhook gets each message signed, the closing after the opening, and once more after a failure", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await sql`insert into serial_key_pause (serial_key, stopped_by) values ('k', 'system')`;
    await judged(sql, term);
    await sql`delete from serial_key_pause`;
    await judged(sql, term);
    await withReceiver(
      (heard) => new Response(null, { status: heard.length === 1 ? 500 : 204 }),
      async (url, heard) => {
        const webhook = { url, secret: "key" };
        await deliverDue({ sql, worker_id: "w1", webhook });
        assert.equal(heard.length, 1, "the closing waits for the opening");
        const [failed] =
          await sql`select last_error, attempts, next_try_at > clock_timestamp() as later from alert_delivery where what = 'opened'`;
        assert.match(english(failed?.last_error), /^127\.0\.0\.1:\d+ answered 500$/);
        assert.equal(failed?.later, true);
        await sql`update alert_delivery set next_try_at = clock_timestamp()`;
        await deliverDue({ sql, worker_id: "w2", webhook });
        await deliverDue({ sql, worker_id: "w2", webhook });
        const bodies = heard.map(({ body }) => JSON.parse(body));
        assert.deepEqual(bodies.map(({ type }) => type), ["alert.opened", "alert.opened", "alert.closed"]);
        assert.equal(bodies[0].delivery, bodies[1].delivery);
        assert.deepEqual([bodies[2].alert.kind, bodies[2].alert.subject], ["key.blocked", "k"]);
        for (const { headers, body } of heard) {
          const given = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(headers.get("dandori-signature") ?? "");
          assert.equal(given?.[2], createHmac("sha256", "key").update(`${given?.[1]}.${body}`).digest("hex"));
          assert(Math.abs(Number(given?.[1]) - Date.now() / 1000) < 300, "its time is that of sending");
        }
        const [alert] = await listAlerts(sql);
        assert(alert?.told_at);
      },
    );
  });
});

Deno.test("a receiver that does not answer, redirects or is not there is tried again, and its address is told nowhere", async () => {
  await withStores(async ({ sql }) => {
    const facts: string[] = [];
    const silence = hear((name, fact) => void facts.push(JSON.stringify([name, fact])));
    const errors = async (url: string, answer_ms?: number) => {
      const id = await requestTest(sql, { actor: "test", reason: "test" });
      await deliverDue({ sql, worker_id: "w1", webhook: { url, secret: "key" }, answer_ms });
      const row = await readDelivery(sql, id);
      assert.equal(row?.delivered_at, null);
      return row?.last_error ?? "";
    };
    try {
      let release = () => {};
      await withReceiver(() => new Promise((done) => release = () => done(new Response("late"))), async (url) => {
        assert.match(english(await errors(url, 300)), /gave no answer in time$/);
        release();
      });
      await withReceiver(() => Response.redirect("http://169.254.169.254/latest", 302), async (url, heard) => {
        assert.match(english(await errors(url)), /answered 302: redirects are not followed$/);
        assert.equal(heard.length, 1);
      });
      assert.match(english(await errors("http://127.0.0.1:1/very-secret")), /could not be reached$/);
      const { certificate: cert, private_key: key } = await makeCertificate("stranger", { days: 1 });
      await withReceiver(() => new Response(), async (url) => {
        const said = await errors(url);
        assert.match(english(said), /^127[^/]+ shows a certificate that is not trusted \(\w+\): name .* by DENO_CERT/);
        assert.match(saidText({ lang: "ja" }, said), /証明書は信頼されていません/);
      }, { cert, key });
    } finally {
      silence();
    }
    const written = JSON.stringify(await sql`select * from alert_delivery`) +
      JSON.stringify(await sql`select * from admin_action_log`);
    assert(!/very-secret|token=/.test(facts.join() + written), "the address got out");
    assert(facts.some((line) => line.includes("alert.undelivered")));
  });
});

Deno.test("of workers that send at once each message goes to one, and one that dies loses its claim", async () => {
  await withStores(async ({ sql }) => {
    const id = await requestTest(sql, { actor: "test", reason: "test" });
    const claims = await Promise.all(
      [1, 2, 3].map((n) => claimDeliveries(sql, `w${n}`, { lease_ms: 60_000, most: 10 })),
    );
    const [dead] = claims.flat();
    assert.equal(claims.flat().length, 1);
    assert(dead);
    await sql`update alert_delivery set next_try_at = clock_timestamp()`; // its time is up
    const [recoverer] = await claimDeliveries(sql, "w4", { lease_ms: 60_000, most: 10 });
    assert.equal(recoverer?.id, id);
    assert.equal(await recordDelivery(sql, dead, { error: "late", retry_ms: 1 }), false);
    assert.equal(await recordDelivery(sql, recoverer ?? dead, "delivered"), true);
    assert.deepEqual([...await claimDeliveries(sql, "w5", { lease_ms: 60_000, most: 10 })], []);
  });
});

Deno.test("an opening that nobody could be told for a day keeps the closing from nobody", async () => {
  await withStores(async ({ sql }) => {
    const [alert] = await sql<{ id: number }[]>`
      insert into alert (kind, subject, message, opened_by) values ('node.away', 'n1', 'gone', 'test') returning id`;
    const add = (what: string, age: string) =>
      sql`insert into alert_delivery (alert_id, what, created_at, next_try_at)
          values (${alert?.id ?? 0}, ${what}, clock_timestamp() - ${age}::interval, '-infinity')`;
    await add("opened", "25 hours");
    await add("closed", "1 hour");
    const due = await claimDeliveries(sql, "w", { lease_ms: 60_000, most: 10 });
    assert.deepEqual(due.map(({ what }) => what), ["closed"]);
  });
});

Deno.test("the webhook's address must be https unless said otherwise, and a refusal does not show it", () => {
  const refused = (env: Record<string, string>) => {
    try {
      readConfig({ DATABASE_URL: "postgres://x", REDIS_URL: "redis://x", ...env });
      return "";
    } catch (error) {
      assert(error instanceof ConfigError);
      assert(!error.message.includes("very-secret"), error.message);
      return error.message;
    }
  };
  const url = "SCHEDULER_ALERT_WEBHOOK_URL";
  assert.match(refused({ [url]: "http://hooks.internal/very-secret" }), /must be https/);
  assert.match(refused({ [url]: "file:///etc/very-secret" }), /must be the address/);
  assert.match(refused({ [url]: "https://me:very-secret@hooks.internal/" }), /must not hold a user/);
  assert.equal(refused({ [url]: "https://hooks.internal/very-secret" }), "");
  assert.equal(refused({ [url]: "http://hooks.internal/x", SCHEDULER_ALERT_WEBHOOK_HTTP: "allow" }), "");
});

Deno.test("a test of the webhook that fails is one JSON value, with the error in it", async () => {
  await withStores(async ({ sql, database_url }) => {
    const said = cliWith({ DATABASE_URL: database_url })("alerts", "test", "--json");
    const fail = () => sql`update alert_delivery set last_error = 'HTTP 500', attempts = 1 where what = 'test'`;
    while ((await fail()).count === 0) await rest(20);
    const { code, out } = await said;
    assert.deepEqual([code, JSON.parse(out).error, JSON.parse(out).attempts], [
      1,
      "The webhook did not accept the test alert: HTTP 500",
      1,
    ]);
  });
});
