/** Old lines move out of Postgres, and whoever reads a run's log sees no difference; what goes wrong on the way loses nothing. */
import assert from "node:assert/strict";
import { gunzipSync } from "node:zlib";
import { objectName, parseLogRef } from "../../../src/archive/log_ref.ts";
import { LogUnreadable, RunLog } from "../../../src/actions/run_log.ts";
import { connectDb, type Sql } from "../../../src/postgres/connection.ts";
import { findOldLogs, MOST_LINES, moveLines, readLogRef } from "../../../src/runs/retention/log_retention.ts";
import { type LogLineView, readLogs } from "../../../src/runs/run_logs.ts";
import { acquire, resign } from "../../../src/nodes/leadership.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { failure, SECRET, signatureOf, withFakeS3 } from "../../support/fake_s3.ts";
import {
  anEndedRun,
  archiveAt,
  bucketOf,
  EVIL,
  leads,
  linesInPostgres,
  moveAll,
  objectsIn,
  say,
} from "../../support/old_logs.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

async function withFolder(test: (on: { sql: Sql; dir: string }) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "dandori-archive " });
  try {
    await withStores(({ sql }) => test({ sql, dir }));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const all = (sql: Sql, id: number) => readLogs(sql, id, { after: 0, most: 1_000_000 });
const numbered = (count: number) => Array.from({ length: count }, (_, n) => `line ${n}`);
const messages = (lines: LogLineView[]) => lines.map(({ message }) => message);

Deno.test("lines of runs that ended long ago move to the archive, one object for many runs, and are read as before", async () => {
  await withFolder(async ({ sql, dir }) => {
    const archive = archiveAt({ kind: "folder", path: dir });
    const old = await anEndedRun(sql, { days: 8, lines: ["first", EVIL.replace("\0", ""), "段取り"] });
    const silent = await anEndedRun(sql, { days: 8, lines: [] });
    const other = await anEndedRun(sql, { days: 7.5, lines: numbered(40) });
    const { id: inflight } = await aRun(sql, { state: "RUNNING", created_at: new Date(0) });
    await say(sql, inflight, ["it runs since long ago"]);
    const young = await anEndedRun(sql, { days: 6, lines: ["not yet"] });
    const before = [await all(sql, old), await all(sql, other)];
    assert.equal(await moveAll({ sql, term: await leads(sql), archive }), 0);

    assert.equal(await linesInPostgres(sql), 2, "of the one that runs, and of the young one");
    const objects = await objectsIn(dir);
    assert.equal(objects.size, 1);
    const whole = gunzipSync([...objects.values()][0] as Uint8Array).toString().trim().split("\n");
    assert.equal(whole.length, 43, "all members together are one gzip file");
    assert.match(whole[0] as string, /"at" ?: ?"2026-01-02T03:04:05\.678901\+00:00".*12345678901234567890/);
    for (const [place, id] of [old, other].entries()) {
      const log = new RunLog({ sql, archive }, { id, log_ref: await readLogRef(sql, id) });
      assert.deepEqual(await log.read({ after: 0, most: 1_000 }), [...before[place] ?? []]);
    }
    for (const id of [silent, inflight, young]) assert.equal(await readLogRef(sql, id), null);
  });
});

Deno.test("pages and the tail of a long log come from several parts, and from lines that came late", async () => {
  await withFolder(async ({ sql, dir }) => {
    const archive = archiveAt({ kind: "folder", path: dir });
    const lines = numbered(2 * MOST_LINES + 100);
    const id = await anEndedRun(sql, { days: 8, lines });
    const term = await leads(sql);
    await moveAll({ sql, term, archive });
    assert.equal(parseLogRef(await readLogRef(sql, id)).parts.length, 3);
    await say(sql, id, ["late", "later"]);
    const log = new RunLog({ sql, archive }, { id, log_ref: await readLogRef(sql, id) });
    const read: string[] = [];
    for (let after = 0;;) {
      const page = await log.read({ after, most: 999 });
      read.push(...messages(page));
      if (page.length < 999) break;
      after = page.at(-1)?.id ?? 0;
    }
    assert.deepEqual(read, [...lines, "late", "later"]);
    assert.deepEqual(messages(await log.readTail(104)), [...lines.slice(-102), "late", "later"]);
    await moveAll({ sql, term, archive });
    assert.equal(await linesInPostgres(sql), 0);
    assert.deepEqual(
      messages(await log.readTail(3)),
      [lines.at(-1), "late", "later"],
      "it hears that lines have moved",
    );
  });
});

Deno.test("a bucket gets and gives the same, each request signed and with the digest of what is sent", async () => {
  await withFakeS3((s3) =>
    withStores(async ({ sql }) => {
      const archive = archiveAt(bucketOf(s3));
      const id = await anEndedRun(sql, { days: 8, lines: numbered(5) });
      await anEndedRun(sql, { days: 8, lines: numbered(3_000) });
      const before = [...await all(sql, id)];
      await moveAll({ sql, term: await leads(sql), archive });
      assert.equal(await linesInPostgres(sql), 0);
      assert.equal(s3.objects.size, 1);
      const log_ref = await readLogRef(sql, id);
      assert.match(
        log_ref ?? "",
        /^s3:\/\/logs\/dandori\/old\/\d{4}-\d\d-\d\d\/\d+-[0-9a-f]{16}\.jsonl\.gz#bytes=0-\d+&lines=\d+-\d+$/,
      );
      assert.deepEqual(await new RunLog({ sql, archive }, { id, log_ref }).read({ after: 0, most: 100 }), before);
      assert.match(await archive.probe(), /answers at 127/);
      assert(s3.asked.every((one) => one.startsWith("PUT ") || one.startsWith("GET ")));

      s3.answer = (request) => {
        assert.match(request.headers.get("authorization") ?? "", /SignedHeaders=[^,]*;x-amz-security-token[;,]/);
        return request.headers.get("x-amz-security-token") === "for an hour" ? undefined : failure(400, "InvalidToken");
      };
      await archiveAt({ ...bucketOf(s3), session_token: "for an hour" } as ReturnType<typeof bucketOf>).probe();
      s3.answer = undefined;
      const stranger = archiveAt({ ...bucketOf(s3), secret: "wrong" } as ReturnType<typeof bucketOf>);
      await assert.rejects(stranger.probe(), { fix: /SCHEDULER_ARCHIVE_SECRET/, message: /403 SignatureDoesNotMatch/ });
    })
  );
});

Deno.test("what checks those signatures makes the one of the example in the documentation of S3", () => {
  const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; // of nothing
  const headers = new Headers({
    host: "examplebucket.s3.amazonaws.com",
    range: "bytes=0-9",
    "x-amz-content-sha256": digest,
    "x-amz-date": "20130524T000000Z",
  });
  const made = signatureOf({
    method: "GET",
    path: "/test.txt",
    headers,
    names: ["host", "range", "x-amz-content-sha256", "x-amz-date"],
    when: "20130524T000000Z",
    region: "us-east-1",
    digest,
    secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  });
  assert.equal(made, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
});

Deno.test("what an archive refuses stays in Postgres, and no message tells a secret", async () => {
  await withFakeS3((s3) =>
    withStores(async ({ sql }) => {
      const archive = archiveAt(bucketOf(s3));
      const id = await anEndedRun(sql, { days: 8, lines: numbered(5) });
      const term = await leads(sql);
      const whys: [FakeAnswer, RegExp][] = [
        [() => failure(403, "AccessDenied"), /answered 403 AccessDenied/],
        [() => failure(404, "NoSuchBucket"), /answered 404 NoSuchBucket/],
        [() => failure(503, "SlowDown"), /answered 503 SlowDown/],
        [() => new Response(null, { status: 307, headers: { location: "http://127.0.0.1:1/" } }), /answered 307/],
      ];
      for (const [answer, said] of whys) {
        s3.answer = answer;
        await assert.rejects(moveAll({ sql, term, archive }), (error: Error) => {
          assert.match(error.message, said);
          assert(!JSON.stringify([error.message, error.stack, error]).includes(SECRET));
          return true;
        });
        assert.deepEqual([await linesInPostgres(sql), await readLogRef(sql, id)], [5, null]);
      }
      s3.answer = undefined;
      await moveAll({ sql, term, archive });
      const log = new RunLog({ sql, archive }, { id, log_ref: await readLogRef(sql, id) });
      const bomb = new Uint8Array(
        await new Response(
          new Blob([new Uint8Array(80 * 1024 * 1024)]).stream().pipeThrough(new CompressionStream("gzip")),
        ).arrayBuffer(),
      );
      const tampered: [FakeAnswer, RegExp, RegExp][] = [
        [() => failure(404, "NoSuchKey"), /404 NoSuchKey/, /the object is gone/],
        [() => failure(503, "SlowDown"), /503 SlowDown/, /try again/],
        [() => new Response("whole", { status: 200 }), /answered 200/, /check/],
        [() => new Response("short", { status: 206 }), /gave other bytes/, /cut or replaced/],
        [(request) => new Response(sized(request, bomb), { status: 206 }), /not a gzip|gave other bytes/, /./],
      ];
      for (const [answer, message, fix] of tampered) {
        s3.answer = answer;
        await assert.rejects(log.read({ after: 0, most: 10 }), (error: LogUnreadable) => {
          assert(error instanceof LogUnreadable);
          assert.match(error.message, new RegExp(`^Cannot read the log of run ${id}: `));
          assert.match(error.message, message);
          assert.match(error.fix, fix);
          assert(!error.message.includes(SECRET));
          return true;
        });
      }
    })
  );
});

type FakeAnswer = (request: Request) => Response;

/** As many bytes as were asked for. */
function sized(request: Request, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const [, first, last] = /(\d+)-(\d+)/.exec(request.headers.get("range") ?? "") ?? [];
  return bytes.slice(0, Number(last) - Number(first) + 1);
}

Deno.test("a run's log_ref opens nothing but objects of this archive, and never unpacks without end", async () => {
  await withFolder(async ({ sql, dir }) => {
    const archive = archiveAt({ kind: "folder", path: dir });
    await Deno.mkdir(`${dir}/2026-01-01`);
    const gzip = async (data: Uint8Array<ArrayBuffer>) =>
      await new Response(new Blob([data]).stream().pipeThrough(new CompressionStream("gzip"))).bytes();
    const bomb = await gzip(new Uint8Array(80 * 1024 * 1024));
    const strange = await gzip(new TextEncoder().encode('{"id":1,"job_run_id":999,"attempt":1}\n'));
    const name = (digit: number) => `2026-01-01/1-${String(digit).repeat(16)}.jsonl.gz`;
    for (const [digit, bytes] of [bomb, strange, new TextEncoder().encode("no gzip")].entries()) {
      await Deno.writeFile(`${dir}/${name(digit)}`, bytes);
    }
    const { id } = await aRun(sql, { state: "SUCCEEDED" });
    const refs: [string, RegExp][] = [
      [`${archive.place}/${name(0)}#bytes=0-${bomb.length - 1}&lines=1-2`, /unpack to more than/],
      [`${archive.place}/${name(1)}#bytes=0-${strange.length - 1}&lines=1-2`, /something else than lines of run/],
      [`${archive.place}/${name(2)}#bytes=0-6&lines=1-2`, /not a gzip/],
      [`${archive.place}/${name(2)}#bytes=0-99999999999&lines=1-2`, /log_ref names bytes/],
      [`${archive.place}/${name(2)}#bytes=3-1&lines=1-2`, /log_ref names bytes/],
      [`${archive.place}/${name(2)}#bytes=0-700&lines=1-2`, /ends before these bytes/],
      [`${archive.place}/${name(9)}#bytes=0-6&lines=1-2`, /not there/],
      [`${archive.place}/../../etc/secrets.jsonl.gz#bytes=0-6&lines=1-2`, /the archive of this process is/],
      [`file:///etc/${name(1)}#bytes=0-6&lines=1-2`, /the archive of this process is/],
      [`s3://bucket/${name(1)}#bytes=0-6&lines=1-2`, /the archive of this process is/],
    ];
    for (const [log_ref, why] of refs) {
      await sql`update job_run set log_ref = ${log_ref} where id = ${id}`;
      const log = new RunLog({ sql, archive }, { id, log_ref });
      await assert.rejects(
        log.readTail(10),
        (error: Error) => why.test(error.message) && error instanceof LogUnreadable,
        log_ref,
      );
      await assert.rejects(
        new RunLog({ sql, archive: undefined }, { id, log_ref }).readTail(1),
        /no archive is configured/,
      );
    }
    for (const log_ref of ["https://logs.example/8", "file:///etc/passwd", "trace:af3"]) {
      await sql`update job_run set log_ref = ${log_ref} where id = ${id}`;
      assert.deepEqual(await new RunLog({ sql, archive }, { id, log_ref }).readTail(10), [], "somebody's own pointer");
    }
  });
});

Deno.test("a folder that is not mounted is an error, and is not made", async () => {
  await withStores(async ({ sql }) => {
    const path = `${Deno.env.get("TMPDIR") ?? "/tmp"}/dandori-${crypto.randomUUID()}`;
    const archive = archiveAt({ kind: "folder", path });
    await anEndedRun(sql, { days: 8, lines: ["stays"] });
    await assert.rejects(moveAll({ sql, term: await leads(sql), archive }), {
      message: /it is not there/,
      fix: /mount/,
    });
    await assert.rejects(archive.probe(), { message: /it is not there/ });
    assert.equal(await linesInPostgres(sql), 1);
    await assert.rejects(Deno.stat(path), Deno.errors.NotFound);
  });
});

Deno.test("a folder in which an object cannot be written whole keeps nothing of it", async () => {
  const path = await Deno.makeTempDir();
  try {
    const archive = archiveAt({ kind: "folder", path });
    const name = objectName("2026-11-22", 1);
    await Deno.mkdir(`${path}/${name}/in-the-way`, { recursive: true });
    await assert.rejects(archive.put(name, new Uint8Array(8)), { name: "ArchiveError" });
    assert.deepEqual(
      (await Array.fromAsync(Deno.readDir(`${path}/2026-11-22`))).map((one) => `2026-11-22/${one.name}`),
      [
        name,
      ],
    );
  } finally {
    await Deno.remove(path, { recursive: true });
  }
});

Deno.test("without an archive lines stay, 0 days keeps them, and old_logs=delete deletes them and says so", async () => {
  await withStores(async ({ sql }) => {
    const term = await leads(sql);
    const id = await anEndedRun(sql, { days: 8, lines: numbered(3) });
    assert.equal(await moveAll({ sql, term }), 1);
    assert.equal(await moveAll({ sql, term }, { log_retention_days_db: 0, old_logs: "delete" }), 0);
    assert.equal(await moveAll({ sql, term }, { log_retention_days_db: 8.5, old_logs: "delete" }), 0);
    assert.equal(await linesInPostgres(sql), 3);
    await moveAll({ sql, term }, { old_logs: "delete" });
    assert.equal(await linesInPostgres(sql), 0);
    const log = new RunLog({ sql, archive: undefined }, { id, log_ref: await readLogRef(sql, id) });
    assert.deepEqual(await log.read({ after: 0, most: 10 }), []);
    assert.match(log.deleted_on ?? "", /^\d{4}-\d\d-\d\d$/);
  });
});

Deno.test("of two that move the same lines one does; lines that came meanwhile stay, and so do those of a term that is over", async () => {
  await withStores(async ({ sql }) => {
    const term = await leads(sql);
    const id = await anEndedRun(sql, { days: 8, lines: ["a", "b", "c"] });
    const ids = (await all(sql, id)).map((line) => line.id);
    const wish = { job_run_id: id, was: null, first_id: ids[0] as number, last_id: ids[2] as number, lines: 3 };
    let other: ReturnType<typeof moveLines> | undefined;
    await sql.begin(async (tx) => {
      assert.deepEqual({ ...await moveLines(tx, term, [{ ...wish, log_ref: "one" }]) }, { runs: 1, lines: 3 });
      other = moveLines(sql, term, [{ ...wish, log_ref: "other" }]);
      await waitFor("the other to wait", async () => {
        return (await sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)[
          0
        ];
      });
    });
    assert.deepEqual({ ...await other }, { runs: 0, lines: 0 });
    assert.equal(await readLogRef(sql, id), "one");

    const second = await anEndedRun(sql, { days: 8, lines: ["a", "b", "c"] });
    const [first_id = 0, , last_id = 0] = (await all(sql, second)).map((line) => line.id);
    const seen = { job_run_id: second, was: null, log_ref: "x", first_id, last_id };
    assert.equal((await moveLines(sql, term, [{ ...seen, lines: 2 }])).runs, 0, "a line between them was not read");
    assert.equal(
      (await moveLines(sql, term, [{ ...seen, lines: 3, was: "y" }])).runs,
      0,
      "somebody moved others since",
    );
    await say(sql, second, ["late"]);
    assert.equal((await moveLines(sql, term, [{ ...seen, lines: 3 }])).lines, 3);
    assert.deepEqual(messages(await all(sql, second)), ["late"]);

    const inflight = await aRun(sql, { state: "RUNNING" });
    await say(sql, inflight.id, ["a"]);
    const line = (await all(sql, inflight.id))[0]?.id ?? 0;
    const of_inflight = { job_run_id: inflight.id, was: null, log_ref: "x", first_id: line, last_id: line, lines: 1 };
    assert.equal((await moveLines(sql, term, [of_inflight])).runs, 0, "it has not ended");
    assert(await resign(sql, term) && await acquire(sql, { worker_id: "next", lease_ms: 60_000, epoch_hint: 0 }));
    assert.equal((await moveLines(sql, term, [{ ...seen, was: "x", first_id: 0, last_id: 1e9, lines: 1 }])).runs, 0);
  });
});

Deno.test("what is read to find old lines is what there is to move, however many runs have none", async () => {
  await withStores(async ({ sql, database_url }) => {
    const { id } = await aDefinition(sql);
    await sql`
      insert into job_run (job_definition_id, source, state, created_at, finished_at)
      select ${id}, 'enqueue', 'SUCCEEDED', now() - interval '9 days', now() - interval '9 days' from generate_series(1, 20000)`;
    await sql`insert into job_run_log (job_run_id, attempt, level, message)
      select id, 1, 'info', 'x' from job_run where id % 1000 = 0`;
    const fresh = connectDb(database_url, { name: "plans", max: 1, steady: true });
    try {
      assert.equal((await findOldLogs(fresh, { after: 0, days: 7 })).runs.length, 20);
      const [row] = await fresh<{ rows: number }[]>`
        select pg_stat_get_xact_tuples_returned('job_run'::regclass)::int as rows`;
      assert.equal(row?.rows, 0, "the whole table was read");
    } finally {
      await fresh.end({ timeout: 2 });
    }
  });
});
