/**
 * What the admin server takes for each page with 1,000,000 runs in the database: from the request to the last byte of the answer, and the
 * weight of the page with its styles and scripts as they are transferred. All pages, with their filters, what asks before an
 * act, and the lists of the API. A part of a page that is refreshed while it is looked at asks for its whole page.
 */
import { connectDb } from "../../src/postgres/connection.ts";
import { applySchema } from "../../src/postgres/schema.ts";
import { type Asked, everyPage } from "../../tests/support/every_page.ts";
import { fillHistory, type Sights } from "../../tests/support/history.ts";
import type { Loader } from "../../tests/support/page_load.ts";
import { withAdminServer } from "../admin_server.ts";
import { cpuOf } from "../processes.ts";
import { type Bench, type Figure, figures, percentiles, type Workload } from "../workload.ts";

const TRIES = 20;
/** The first of each session plans and reads what nobody has asked for yet. */
const WARM = 3;

export const pages: Workload = {
  name: "pages",
  about: "each page of the admin server with 1,000,000 runs in the database: time and weight",
  async run(bench) {
    const database_url = await bench.servers.empty();
    try {
      const sights = await filled(bench, database_url);
      return await withAdminServer(
        { servers: bench.servers, database_url },
        (loader, pid) => measureAll(bench, { loader, pids: [pid, bench.servers.postgres_pid] }, sights),
      );
    } finally {
      await bench.servers.drop(database_url);
    }
  },
};

async function filled(bench: Bench, database_url: string): Promise<Sights> {
  const runs = bench.runs ?? (bench.quick ? 100_000 : 1_000_000);
  const sql = connectDb(database_url, { name: "bench", max: 1, statement_timeout_ms: 0 });
  try {
    bench.say(`pages: ${runs} runs are put in`);
    await applySchema(sql);
    const sights = await fillHistory(sql, { runs, waiting: 5_000, jobs: 100, nodes: 12 });
    await sql`vacuum analyze`; // as autovacuum would in its time
    await sql`checkpoint`;
    return sights;
  } finally {
    await sql.end({ timeout: 2 });
  }
}

interface Server {
  loader: Loader;
  /** Its own and its Postgres'. */
  pids: number[];
}

async function measureAll(bench: Bench, server: Server, sights: Sights): Promise<Figure[]> {
  const tries = bench.quick ? 5 : TRIES;
  const all = everyPage(sights, new Date());
  bench.say(`pages: ${all.length} of them, ${tries} times each`);
  const found: Figure[] = [];
  for (const one of all) found.push(...await measure(server, one, tries));
  const worst = (measure: string) =>
    Math.max(...found.filter((figure) => figure.measure === measure).map(({ value }) => value));
  const on = { workload: "pages", who: "dandori", how: "all of them", n: all.length };
  return [
    ...found,
    ...figures(on, {
      "slowest p50": [worst("p50"), "ms"],
      slowest: [worst("worst"), "ms"],
      "most cpu": [worst("cpu"), "ms"],
      heaviest: [worst("weight"), "kB"],
    }),
  ];
}

/** `cpu`: of the server and of Postgres for one page, which a machine with other work changes less than the time. */
async function measure({ loader, pids }: Server, { name, path }: Asked, tries: number): Promise<Figure[]> {
  const took_ms: number[] = [];
  const spent = () => cpuOf(pids).reduce((sum, seconds) => sum + seconds, 0);
  let [weight, before] = [0, 0];
  for (let place = -WARM; place < tries; place++) {
    if (place === 0) before = spent();
    const answer = await loader.get(path);
    if (answer.status !== 200) throw new Error(`${path} answers ${answer.status}`);
    if (place < 0) weight = await loader.weight(answer);
    else took_ms.push(answer.ms);
  }
  const { p50 } = percentiles(took_ms);
  return figures({ workload: "pages", who: "dandori", how: name, n: tries }, {
    p50,
    worst: [Math.max(...took_ms), "ms"],
    cpu: [(spent() - before) * 1_000 / tries, "ms"],
    weight: [weight / 1_000, "kB"],
  });
}
