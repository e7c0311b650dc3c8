/** Archived logs as people and programs meet them: on the run's page, by the API, on the command line, and what doctor says of them. */
import assert from "node:assert/strict";
import { ConfigError, readConfig } from "../../../src/platform/config.ts";
import { toFileUrl } from "../../../src/platform/paths.ts";
import type { Archive } from "../../../src/archive/archive.ts";
import type { Finding } from "../../../src/ops/doctor.ts";
import { adminOn } from "../../support/admin.ts";
import { withApi } from "../../support/api_scene.ts";
import { cliWith } from "../../support/cli.ts";
import { anEndedRun, archiveAt, leads, moveAll, objectsIn } from "../../support/old_logs.ts";
import { type Stores, withStores } from "../../support/stores.ts";

const SLY = `<script>alert("段取り")</script> \u001b]0;x\u0007`;
const LINES = ["first", SLY, ...Array.from({ length: 400 }, (_, n) => `line ${n}`)];

async function withArchive(test: (on: Stores & { dir: string; archive: Archive }) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "dandori-archive-" });
  try {
    await withStores((stores) => test({ ...stores, dir, archive: archiveAt({ kind: "folder", path: dir }) }));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function emptied(dir: string): Promise<void> {
  for (const name of (await objectsIn(dir)).keys()) await Deno.remove(`${dir}/${name}`);
}

Deno.test("the page of a run shows archived lines, escaped, and where they are; when they cannot be read it says so and shows the rest", async () => {
  await withArchive(async (on) => {
    const { sql, archive, dir } = on;
    const short = await anEndedRun(sql, { days: 8, lines: [SLY] });
    const long = await anEndedRun(sql, { days: 8, lines: LINES });
    await adminOn(on, async ({ login }) => {
      const browser = await login("viewer");
      const log = (page: string) => /<div id="log"[\s\S]*?<\/section>/.exec(page)?.[0];
      const before = [await browser.text(`/runs/${short}`), await browser.text(`/runs/${long}`)];
      await moveAll({ sql, term: await leads(sql), archive });
      for (const [place, id] of [short, long].entries()) {
        const page = await browser.text(`/runs/${id}`);
        assert.equal(log(page), log(before[place] as string), "as if nothing had happened");
        assert.match(page, /read from the archive:.*<code>file:\/\/\/.*\.jsonl\.gz<\/code>/s);
      }
      const ja = await browser.text(`/runs/${short}`, { "accept-language": "ja" });
      assert.match(ja, /アーカイブから読んでいます/);
      assert.match(ja, /&lt;script&gt;/);
      assert.doesNotMatch(ja, /<script>alert/);
      await emptied(dir);
      const answer = await browser.get(`/runs/${short}`);
      assert.equal(answer.status, 200);
      const gone = await answer.text();
      assert.match(gone, new RegExp(`Cannot read the log of run ${short}: cannot read file:.* it is not there; mount`));
      assert.match(gone, /<h2>Details<\/h2>/);
    }, { archive });
    await adminOn(on, async ({ login }) => {
      assert.match(
        await (await login("viewer", "other")).text(`/runs/${short}`),
        /no archive is configured here; set SCHEDULER_ARCHIVE/,
      );
    });
  });
});

Deno.test("lines that were deleted are told as deleted", async () => {
  await withArchive(async (on) => {
    const id = await anEndedRun(on.sql, { days: 8, lines: LINES });
    await moveAll({ sql: on.sql, term: await leads(on.sql) }, { old_logs: "delete" });
    await adminOn(on, async ({ login }) => {
      const browser = await login("viewer");
      const page = await browser.text(`/runs/${id}`);
      assert.match(page, /Its log lines were deleted on \d{4}-/);
      assert.doesNotMatch(page, /No log output/);
      assert.match(await browser.text(`/runs/${id}`, { "accept-language": "ja" }), /行を削除しました/);
    });
    const { code, out, err } = await cliOn(on)("runs", "logs", String(id));
    assert.deepEqual([code, out], [0, ""]);
    assert.match(err, new RegExp(`the log lines of run ${id} were deleted on \\d{4}-`));
  });
});

Deno.test("the API gives archived lines in pages as before, and 502 with what to do when it cannot", async () => {
  const dir = await Deno.makeTempDir({ prefix: "dandori-archive-" });
  const archive = archiveAt({ kind: "folder", path: dir });
  try {
    await withApi(async ({ sql, call }) => {
      const id = await anEndedRun(sql, { days: 8, lines: LINES });
      const all = async () => {
        const lines: unknown[] = [];
        for (let next: unknown = ""; next !== null;) {
          const { body } = await call("GET", `/runs/${id}/logs?limit=150${next && `&after=${next}`}`);
          lines.push(...body.items ?? []);
          next = body.next;
        }
        return lines;
      };
      const before = await all();
      assert.equal(before.length, LINES.length);
      await moveAll({ sql, term: await leads(sql), archive });
      assert.deepEqual(await all(), before);
      await emptied(dir);
      const { status, body } = await call("GET", `/runs/${id}/logs`);
      assert.deepEqual([status, body.type], [502, "urn:dandori:problem:archive"]);
      assert.match(String(body.detail), new RegExp(`^Cannot read the log of run ${id}: `));
      assert.match(String(body.fix), /mount/);
    }, { archive });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

function cliOn({ database_url, redis_url }: Stores, env: Record<string, string> = {}) {
  return cliWith({ DATABASE_URL: database_url, REDIS_URL: redis_url, ...env });
}

Deno.test("the command line shows archived lines, harmless, and where they are", async () => {
  await withArchive(async (on) => {
    const { sql, archive, dir } = on;
    const id = await anEndedRun(sql, {
      days: 8,
      lines: [...LINES, ...Array.from({ length: 2_500 }, (_, n) => `more ${n}`)],
    });
    const cli = cliOn(on, { SCHEDULER_ARCHIVE: toFileUrl(dir).href });
    const before = await cli("runs", "logs", String(id), "--json");
    await moveAll({ sql, term: await leads(sql), archive });
    assert.equal((await cli("runs", "logs", String(id), "--json")).out, before.out);
    const { out } = await cli("runs", "logs", String(id));
    assert.equal(out.trim().split("\n").length, LINES.length + 2_500);
    // deno-lint-ignore no-control-regex
    assert.doesNotMatch(out, /[\x07\x1b]/);
    assert.match((await cli("runs", "show", String(id))).out, /log +file:\/\/\/.*#bytes=0-/);
    const without = await cliOn(on)("runs", "logs", String(id));
    assert.equal(without.code, 1);
    assert.match(
      without.err,
      new RegExp(
        `Cannot read the log of run ${id}: its lines are in file:.*no archive is configured here; set SCHEDULER_ARCHIVE`,
      ),
    );
    await emptied(dir);
    assert.match((await cli("runs", "logs", String(id))).err, /it is not there; mount/);
  });
});

Deno.test("doctor says what becomes of old lines, and what to do where they cannot go", async () => {
  await withArchive(async (on) => {
    const look = async (env: Record<string, string> = {}) => {
      const found = JSON.parse((await cliOn(on, env)("doctor", "--json")).out) as Finding[];
      return found.find(({ check }) => check === "old logs") as Finding;
    };
    assert.equal((await look()).state, "ok");
    await anEndedRun(on.sql, { days: 8.5, lines: ["old"] });
    const none = await look();
    assert.equal(none.state, "warning");
    assert.match(none.detail, /no archive is configured, so they stay in Postgres: those of 1 runs/);
    assert.match(none.fix, /SCHEDULER_ARCHIVE.*old_logs=delete/);
    assert.match(
      (await look({ SCHEDULER_ARCHIVE: toFileUrl(on.dir).href })).detail,
      /should have gone more than a day ago/,
    );
    const away = await look({ SCHEDULER_ARCHIVE: "file:///nowhere/at-all" });
    assert.deepEqual([away.state, away.detail], ["problem", "Cannot use file:///nowhere/at-all: it is not there"]);
    assert.match(away.fix, /mount/);
    await moveAll({ sql: on.sql, term: await leads(on.sql), archive: on.archive });
    assert.equal((await look({ SCHEDULER_ARCHIVE: toFileUrl(on.dir).href })).state, "ok");
  });
});

Deno.test("the archive's address is checked at the start; what is wrong is told without any secret", () => {
  const env = {
    DATABASE_URL: "postgres://x",
    REDIS_URL: "redis://x",
    SCHEDULER_NODE_ID: "here",
    SCHEDULER_STATE_DIR: "/nowhere",
  };
  const keys = { SCHEDULER_ARCHIVE_KEY_ID: "AKID", SCHEDULER_ARCHIVE_SECRET: "hush" };
  const place = (more: Record<string, string>) => readConfig({ ...env, ...more }).archive;
  assert.equal(place({}), undefined);
  assert.deepEqual(place({ SCHEDULER_ARCHIVE: "file:///mnt/old%20logs/" }), { kind: "folder", path: "/mnt/old logs" });
  assert.deepEqual(
    place({ SCHEDULER_ARCHIVE: "s3://company.logs/dandori/a/", ...keys, AWS_SECRET_ACCESS_KEY: "other" }),
    {
      kind: "bucket",
      bucket: "company.logs",
      prefix: "dandori/a",
      endpoint: "https://s3.us-east-1.amazonaws.com",
      region: "us-east-1",
      key_id: "AKID",
      secret: "hush",
      session_token: undefined,
    },
  );
  const aws = { AWS_ACCESS_KEY_ID: "A", AWS_SECRET_ACCESS_KEY: "S", AWS_SESSION_TOKEN: "T", AWS_REGION: "eu-north-1" };
  const found = place({ SCHEDULER_ARCHIVE: "s3://logs", ...aws });
  assert(found?.kind === "bucket");
  assert.deepEqual([found.prefix, found.endpoint, found.session_token], [
    "",
    "https://s3.eu-north-1.amazonaws.com",
    "T",
  ]);
  const wrong: [Record<string, string>, RegExp][] = [
    [{ SCHEDULER_ARCHIVE: "/mnt/logs" }, /must be like file:\/\/\//],
    [{ SCHEDULER_ARCHIVE: "https://hush@host/" }, /must be like/],
    [{ SCHEDULER_ARCHIVE: "s3://hush:hush@bucket/x" }, /must be like/],
    [{ SCHEDULER_ARCHIVE: "file://host/logs" }, /three slashes/],
    [{ SCHEDULER_ARCHIVE: "file:///" }, /must name a folder/],
    [{ SCHEDULER_ARCHIVE: "s3://Bucket_/x", ...keys }, /must be s3:\/\/bucket\/prefix/],
    [{ SCHEDULER_ARCHIVE: "s3://bucket/a b", ...keys }, /must be s3:\/\/bucket\/prefix/],
    [{ SCHEDULER_ARCHIVE: "s3://bucket" }, /keys are needed/],
    [{ SCHEDULER_ARCHIVE: "s3://bucket", SCHEDULER_ARCHIVE_SECRET: "hush", ...aws }, /keys are needed/],
    [
      { SCHEDULER_ARCHIVE: "s3://bucket", ...keys, SCHEDULER_ARCHIVE_ENDPOINT: "http://minio:9000" },
      /must be https.*SCHEDULER_ARCHIVE_HTTP=allow/,
    ],
    [
      { SCHEDULER_ARCHIVE: "s3://bucket", ...keys, SCHEDULER_ARCHIVE_ENDPOINT: "https://u:hush@minio" },
      /must be the address/,
    ],
  ];
  for (const [more, why] of wrong) {
    assert.throws(() => place(more), (error: Error) => {
      assert(error instanceof ConfigError);
      assert.match(error.message, why);
      assert.doesNotMatch(error.message, /hush/);
      return true;
    });
  }
});
