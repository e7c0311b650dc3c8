/** What scrapers are told: right, cheap, bounded, and the same names in the docs, the dashboard and the rules. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { observe } from "../../../src/platform/facts.ts";
import { serveAdmin } from "../../../src/admin/server.ts";
import { clusterRegistry, METRICS_CONTENT_TYPE, metricsText } from "../../../src/ops/metrics/cluster.ts";
import { type MetricsSubject, serveWorkerMetrics, WorkerMetrics } from "../../../src/ops/metrics/worker.ts";
import { claimDeliveries } from "../../../src/alerts/alerts.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { readFigures } from "../../../src/stats/gauges.ts";
import { acquire, depose, type Term } from "../../../src/nodes/leadership.ts";
import { sampleLoad } from "../../../src/stats/load_stats.ts";
import { type AllTime, BOUNDS, readAllTime, rollUp } from "../../../src/stats/run_stats.ts";
import { forceClose } from "../../../src/runs/states.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";
import { withProcesses } from "../../support/cluster.ts";
import { withStores } from "../../support/stores.ts";
import { withCrammed } from "../../support/crammed.ts";
import { waitFor } from "../../support/waiting.ts";

const SUBJECT: MetricsSubject = {
  role: "worker",
  slots: 4,
  draining: false,
  detached: false,
  may_run: true,
  lease_seconds: 20,
  bodies: 2,
  spares: 1,
};

function sums(job_name: string, count: number, place = 0): AllTime {
  const counts = BOUNDS.map((_, place) => place === 6 ? count : 0).concat(0);
  const none = { failed: 0, timed_out: 0, canceled: 0, skipped: 0, quarantined: 0 };
  return { job_name, place, succeeded: count, ...none, wait_seconds: 1, run_seconds: 2, waits: counts, runs: counts };
}

/** `name{labels}` -> value. */
function valuesIn(text: string): Map<string, number> {
  const lines = text.split("\n").filter((line) => line && !line.startsWith("#"));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]),
  );
}

async function someFigures(sql: Sql) {
  await aWorker(sql, { tls_not_after: new Date(Date.now() + 86_400_000), clock_skew_ms: -1500, slots: 3 });
  return await readFigures(sql);
}

Deno.test("the cluster's metrics say what Postgres has, and are read once however many ask", async () => {
  await withStores(async ({ sql }) => {
    const lease = { lease_ms: 60_000, epoch_hint: 0 };
    const first = await acquire(sql, { worker_id: "one", ...lease }) as Term;
    const term = await depose(sql, { worker_id: "two", epoch: first.epoch, ...lease }) as Term;
    const { id: job_definition_id } = await aDefinition(sql, { name: "export" });
    for (let i = 0; i < 3; i++) {
      await forceClose(sql, (await aRun(sql, { job_definition_id })).id, { actor: "test", reason: "test" });
    }
    await aRun(sql, { job_definition_id, priority: 120 });
    const { worker_id } = await aWorker(sql, {
      slots: 5,
      tls_not_after: new Date(Date.now() + 86_400_000),
      clock_skew_ms: -1500,
    });
    await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id });
    await sql`select emit_event('thing.happened')`;
    await rollUp(sql, term);
    await sampleLoad(sql, term);
    const texts = await Promise.all([metricsText(sql), metricsText(sql)]);
    const values = valuesIn(texts[0]);
    const expected = {
      'dandori_runs_total{job_name="export",outcome="failed"}': 3,
      'dandori_runs_total{job_name="export",outcome="succeeded"}': 0,
      'dandori_queue_runs{priority="admin.high"}': 1,
      'dandori_queue_runs{priority="user.low"}': 0,
      "dandori_slots": 5,
      "dandori_slots_used": 1,
      "dandori_leader_epoch": term.epoch,
      "dandori_leader_up": 1,
      "dandori_failovers_total": 1,
      "dandori_clock_skew_seconds": 1.5,
      "dandori_events_waiting": 1,
      'dandori_workers{state="active"}': 1,
      'dandori_alerts_open{kind="leader.none"}': 0,
    };
    for (const [name, value] of Object.entries(expected)) assert.equal(values.get(name), value, name);
    const expiry = values.get("dandori_certificate_expiry_seconds") ?? 0;
    assert(expiry > 86_000 && expiry <= 86_400, `${expiry}`);
    await sql`update worker set slots = 9`;
    assert.equal(await metricsText(sql), texts[1]);
  });
});

Deno.test("what is not known has no value, rather than 0", async () => {
  await withStores(async ({ sql }) => {
    const text = await clusterRegistry({ figures: await readFigures(sql), backlog: [], jobs: [] }).metrics();
    const values = valuesIn(text);
    assert.equal(values.has("dandori_certificate_expiry_seconds"), false);
    assert.equal(values.has("dandori_clock_skew_seconds"), false);
    assert.equal(values.get("dandori_leader_up"), 0);
    assert(!/NaN|Nan|undefined|null/.test(text));
  });
});

Deno.test("histograms add up, and jobs beyond the first 200 share a label", async () => {
  await withStores(async ({ sql }) => {
    const backlog = [{ priority: "admin.high" as const, waiting: 1, oldest_seconds: 1, sampled_at: new Date(0) }];
    const jobs = Array.from({ length: 250 }, (_, n) => sums(`job_${n}`, 2, n));
    const text = await clusterRegistry({ figures: await someFigures(sql), backlog, jobs }).metrics();
    const values = valuesIn(text);
    const bucket = (le: string, job: string) =>
      values.get(`dandori_run_wait_seconds_bucket{job_name="${job}",le="${le}"}`) ??
        values.get(`dandori_run_wait_seconds_bucket{le="${le}",job_name="${job}"}`);
    assert.deepEqual(
      [bucket("0.5", "job_7"), bucket("1", "job_7"), bucket("86400", "job_7"), bucket("+Inf", "job_7")],
      [0, 2, 2, 2],
    );
    assert.equal(bucket("+Inf", "(other)"), 100);
    assert.equal(values.get('dandori_run_duration_seconds_sum{job_name="(other)"}'), 100);
    assert.equal(values.get('dandori_runs_total{job_name="(other)",outcome="succeeded"}'), 100);
    const labels = new Set([...text.matchAll(/[{,](\w+)="/g)].map(([, name]) => name));
    assert.deepEqual([...labels].sort(), ["job_name", "kind", "le", "outcome", "priority", "state", "status"]);
    assert.equal(new Set([...text.matchAll(/job_name="([^"]*)"/g)].map(([, job]) => job)).size, 201);
  });
});

Deno.test("a job that ends its first run late takes no other job's label away", async () => {
  await withStores(async ({ sql }) => {
    const quiet = await aDefinition(sql, { name: "quiet" });
    await sql`
      with made as (
        insert into job_definition (name, type, command_name, digest)
        select 'job_' || n, 'demand', 'job_' || n, 'd' from generate_series(1, 199) n returning id)
      insert into run_stat (grain_seconds, at, job_definition_id, succeeded, wait_seconds, run_seconds, waits, runs)
      select 0, 'epoch', id, 1, 0, 0, array_fill(0::bigint, array[18]), array_fill(0::bigint, array[18]) from made`;
    const last = 'dandori_runs_total{job_name="job_199",outcome="succeeded"}';
    await aDefinition(sql, { name: "youngest" });
    await sql`
      insert into run_stat (grain_seconds, at, job_definition_id, succeeded, wait_seconds, run_seconds, waits, runs)
      select 0, 'epoch', id, 1, 0, 0, array_fill(0::bigint, array[18]), array_fill(0::bigint, array[18]) from job_definition where name = 'youngest'`;
    const scrape = async () => {
      const jobs = await readAllTime(sql);
      return valuesIn(await clusterRegistry({ figures: await readFigures(sql), backlog: [], jobs }).metrics());
    };
    const other = 'dandori_runs_total{job_name="(other)",outcome="succeeded"}';
    const before = await scrape();
    await sql`
      insert into run_stat (grain_seconds, at, job_definition_id, succeeded, wait_seconds, run_seconds, waits, runs)
      values (0, 'epoch', ${quiet.id}, 1, 0, 0, array_fill(0::bigint, array[18]), array_fill(0::bigint, array[18]))`;
    const after = await scrape();
    assert.deepEqual([before.get(last), before.get(other)], [1, 1]);
    assert.deepEqual([after.get(last), after.get(other)], [1, 1], "nothing that was counted moves to another series");
  });
});

Deno.test("a job that has ended no run yet is counted as none, so that its first failure is seen to be more", async () => {
  await withStores(async ({ sql }) => {
    await aDefinition(sql, { name: "fresh" });
    const gone = await aDefinition(sql, { name: "gone" });
    await sql`update job_definition set removed_at = now(), enabled = false where id = ${gone.id}`;
    const jobs = await readAllTime(sql);
    const text = await clusterRegistry({ figures: await readFigures(sql), backlog: [], jobs }).metrics();
    const values = valuesIn(text);
    assert.equal(values.get('dandori_runs_total{job_name="fresh",outcome="failed"}'), 0);
    assert.equal(values.get('dandori_runs_quarantined_total{job_name="fresh"}'), 0);
    assert.equal(values.get('dandori_run_wait_seconds_count{job_name="fresh"}'), 0);
    assert(!/gone|NaN|null/.test(text), "a job that was removed and never ended a run has nothing to tell");
  });
});

Deno.test("a message that is too old to be sent is not said to wait for the webhook", async () => {
  await withStores(async ({ sql }) => {
    await sql`insert into alert_delivery (what, created_at) values ('test', now() - interval '25 hours'), ('test', now())`;
    assert.equal((await claimDeliveries(sql, "w1", { lease_ms: 0, most: 10 })).length, 1);
    assert.equal((await readFigures(sql)).deliveries_waiting, 1);
  });
});

Deno.test("a worker's own server counts what it hears, says whether it takes work, and asks for its token", async () => {
  let subject: MetricsSubject | undefined;
  const server = serveWorkerMetrics({ host: "127.0.0.1", port: 0, token: "letmein" }, () => subject);
  const get = async (path: string, token?: string) => {
    const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
    const answer = await fetch(`http://127.0.0.1:${server.port}${path}`, { headers });
    return { status: answer.status, text: await answer.text() };
  };
  try {
    assert.equal((await get("/healthz")).status, 200);
    assert.deepEqual(await get("/readyz"), { status: 503, text: "it has not registered yet\n" });
    subject = SUBJECT;
    assert.equal((await get("/readyz")).status, 200);
    subject = { ...SUBJECT, draining: true };
    assert.deepEqual(await get("/readyz"), { status: 503, text: "it drains\n" });
    assert.equal((await get("/metrics")).status, 401);
    assert.equal((await get("/metrics", "letmeout")).status, 401);
    assert.equal((await get("/etc/passwd")).status, 404);
    observe("rpc.failed", { call: "StartJob", caller: "w1", error: "test" });
    observe("body.spawned", { job_name: "a", pid: 1, spare: true, spawn_ms: 2 });
    const { status, text } = await get("/metrics", "letmein");
    assert.equal(status, 200);
    const values = valuesIn(text);
    assert.equal(values.get("dandori_worker_bodies"), 2);
    assert.equal(values.get("dandori_worker_ready"), 0);
    assert.equal(values.get("dandori_worker_rpc_failed_total"), 1);
    assert.equal(values.get('dandori_worker_spawn_seconds_count{spare="true"}'), 1);
    assert((values.get("process_resident_memory_bytes") ?? 0) > 1_000_000);
  } finally {
    await server.close();
  }
});

Deno.test("a worker's own server tells metrics with no token to this machine alone, and answers other sites' names to nobody without it", async () => {
  for (const token of [undefined, "letmein"]) {
    const server = serveWorkerMetrics({ host: "0.0.0.0", port: 0, token }, () => SUBJECT);
    const port = server.port;
    const elsewhere = Deno.networkInterfaces().find(({ family, address }) =>
      family === "IPv4" && address !== "127.0.0.1"
    );
    const statusOf = async (host: string, path: string, headers: Record<string, string> = {}, to = "127.0.0.1") => {
      const connection = await Deno.connect({ hostname: to, port });
      const lines = Object.entries({ host, connection: "close", ...headers }).map(([name, value]) =>
        `${name}: ${value}\r\n`
      );
      await connection.write(new TextEncoder().encode(`GET ${path} HTTP/1.1\r\n${lines.join("")}\r\n`));
      return Number((await new Response(connection.readable).text()).split(" ")[1]);
    };
    const open = token === undefined ? 200 : 401;
    try {
      assert.equal(await statusOf(`localhost:${port}`, "/metrics"), open);
      assert.equal(await statusOf("10.1.2.3", "/readyz"), 200, "Kubernetes asks by the address of the pod");
      for (const path of ["/metrics", "/healthz", "/readyz"]) {
        assert.equal(await statusOf("evil.example", path), 421, path);
      }
      assert.equal(
        await statusOf("localhost", "/metrics", { "x-forwarded-for": "10.1.2.3" }),
        401,
        "a proxy asks for somebody",
      );
      if (elsewhere) {
        assert.equal(await statusOf("localhost", "/metrics", {}, elsewhere.address), 401, "not by the loopback");
      }
      const shown = await statusOf("worker-1.internal", "/metrics", { authorization: "Bearer letmein" });
      assert.equal(shown, token === undefined ? 421 : 200);
    } finally {
      await server.close();
    }
  }
});

Deno.test("a worker that can take no connection, since it may open no more files, goes on, and answers when it can", () =>
  withCrammed(new URL("../../support/http_crammed.ts", import.meta.url), async ({ port, cram, says }) => {
    await cram(() => says(/loop\.failed/));
    await waitFor("an answer", async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined);
      return await answer?.text() === "ok\n";
    });
  }));

Deno.test("a run in a real worker is counted by the leader, shown to scrapers, and traced where OTEL_DENO says so", async () => {
  const spans: string[] = [];
  const collector = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    const body = await request.text();
    if (request.url.endsWith("/v1/traces")) spans.push(body);
    return new Response("{}", { headers: { "content-type": "application/json" } });
  });
  try {
    await withProcesses(1, async (cluster) => {
      const { address } = await cluster.hears("metrics.ready");
      await waitFor("readiness", async () => {
        const answer = await fetch(`http://${address}/readyz`);
        await answer.body?.cancel();
        return answer.ok || undefined;
      });
      const id = await cluster.enqueue("append_one_row");
      assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
      await waitFor("the run among the counted", async () => {
        const figures = await readFigures(cluster.sql);
        const [row] = await cluster.sql<{ n: number }[]>`
          select succeeded as n from run_stat where grain_seconds = 0 and job_definition_id = 0`;
        return row?.n === 1 && figures.slots > 0 || undefined;
      });
      const values = valuesIn(await metricsText(cluster.sql));
      assert.equal(values.get('dandori_runs_total{job_name="append_one_row",outcome="succeeded"}'), 1);
      assert((values.get("dandori_certificate_expiry_seconds") ?? 0) > 0);
      assert(values.has("dandori_clock_skew_seconds"));
      const own = valuesIn(await (await fetch(`http://${address}/metrics`)).text());
      assert.equal(own.get('dandori_worker_runs_total{outcome="SUCCEEDED"}'), 1);
      assert.equal(own.get("dandori_worker_leader"), 1);
      await waitFor(
        "the run's span",
        () => Promise.resolve(spans.some((text) => text.includes("run append_one_row")) || undefined),
      );
    }, {
      settings: { stat_interval_seconds: 0.2 },
      env: {
        SCHEDULER_METRICS_PORT: "0",
        OTEL_DENO: "true",
        OTEL_DENO_CONSOLE: "ignore",
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.addr.port}`,
        OTEL_BSP_SCHEDULE_DELAY: "200",
      },
    });
  } finally {
    await collector.shutdown();
  }
});

Deno.test("the admin server gives the cluster's metrics on its own machine without a login, and asks for its token where it has one", async () => {
  await withStores(async ({ sql }) => {
    const ask = async (metrics_token: string | undefined, headers: Record<string, string>) => {
      let found = (_: string) => {};
      const url = new Promise<string>((resolve) => found = resolve);
      const stop = new AbortController();
      const config = { host: "127.0.0.1", port: 0, public_url: undefined, proxies: 0, metrics_token };
      const served = serveAdmin(config, { sql, stop: stop.signal, ready: (at) => found(at) });
      const answer = await fetch(`${await url}metrics`, { headers });
      const text = await answer.text();
      stop.abort();
      await served;
      return { status: answer.status, type: answer.headers.get("content-type"), text };
    };
    const open = await ask(undefined, {});
    assert.deepEqual([open.status, open.type], [200, METRICS_CONTENT_TYPE]);
    assert(valuesIn(open.text).has("dandori_leader_up"));
    assert.equal((await ask("letmein", {})).status, 401);
    assert.equal((await ask("letmein", { authorization: "Bearer letmein" })).status, 200);
  });
});

/** Name -> help and type, of both. */
async function allMetrics(): Promise<Map<string, { help: string; type: string }>> {
  return await withStores(async ({ sql }) => {
    const cluster = clusterRegistry({ figures: await someFigures(sql), backlog: [], jobs: [sums("a", 1)] });
    const worker = new WorkerMetrics(() => SUBJECT);
    try {
      const text = `${await cluster.metrics()}\n${await worker.text()}`;
      const types = new Map(
        [...text.matchAll(/^# TYPE (\S+) (\S+)/gm)].map(([, name = "", type = ""]) => [name, type]),
      );
      return new Map([...text.matchAll(/^# HELP (\S+) (.*)/gm)].map(([, name = "", help = ""]) => [
        name,
        { help, type: types.get(name) ?? "" },
      ]));
    } finally {
      worker.close();
    }
  });
}

Deno.test("the docs describe each metric, and none that is not there", async () => {
  const metrics = await allMetrics();
  const doc = Deno.readTextFileSync(`${PROJECT_DIR}/docs/monitoring.md`);
  const rows = [...doc.matchAll(/^\| `((?:dandori|process)_\w+)`\s*\|\s*(\w+)\s*\|\s*(.*?)\s*\|$/gm)];
  const described = new Map(rows.map(([, name = "", type = "", help = ""]) => [name, { type, help }]));
  const wanted = [...metrics].filter(([name, { type, help }]) => {
    const row = described.get(name);
    return row?.type !== type || !row.help.startsWith(help);
  }).map(([name, { type, help }]) => `| \`${name}\` | ${type} | ${help} |`);
  assert(wanted.length === 0, `write into docs/monitoring.md:\n${wanted.join("\n")}`);
  assert.deepEqual([...described.keys()].filter((name) => !metrics.has(name)), []);
});

Deno.test("the dashboard and the rules name metrics that are there", async () => {
  const metrics = await allMetrics();
  const dashboard = JSON.parse(Deno.readTextFileSync(`${PROJECT_DIR}/deploy/grafana-dashboard.json`));
  const rules = Deno.readTextFileSync(`${PROJECT_DIR}/deploy/prometheus-rules.yml`);
  const expressions: string[] = dashboard.panels.flatMap((panel: { targets?: { expr: string }[] }) =>
    panel.targets?.map(({ expr }) => expr) ?? []
  );
  assert(expressions.length >= 12);
  const named = [...`${expressions.join("\n")}\n${rules}`.matchAll(/\b(dandori_[a-z_]+)/g)].map(([name]) => name);
  assert(named.length > 20);
  const known = (name: string) =>
    metrics.has(name) || metrics.get(name.replace(/_(bucket|sum|count)$/, ""))?.type === "histogram";
  assert.deepEqual([...new Set(named)].filter((name) => !known(name)), []);
  const ids = dashboard.panels.map(({ id }: { id: number }) => id);
  assert.equal(new Set(ids).size, ids.length);
});
