/** Certificates change under load, in real processes: with overlap nothing fails, nothing is refused, nothing restarts. */
import assert from "node:assert/strict";
import { rest } from "../../../src/platform/timers.ts";
import {
  type CertificateAuthority,
  makeAuthority,
  makeCertificate,
  type NodeCertificate,
} from "../../../src/rpc/certificates.ts";
import { OLD_CHANNEL_MS } from "../../../src/rpc/peers.ts";
import { CALM, type Cluster, withProcesses } from "../../support/cluster.ts";
import { nothingLostOrCharged, underLoad } from "../../support/steady_load.ts";
import { waitFor } from "../../support/waiting.ts";

const NODES = ["node-1", "node-2", "node-3"];
/** Files are looked at ten times as often as by default: what is done here is mostly to wait for that. */
const OPTIONS = { settings: CALM, env: { SCHEDULER_TLS_POLL_MS: "500" } };

Deno.test("pins and then certificates of all nodes are swapped under load, and the old pins removed", async () => {
  await withProcesses(3, async (cluster) => {
    await cluster.hears("leader.elected");
    const { pins_file } = await cluster.tlsOf("node-1");
    const old_pins = Deno.readTextFileSync(pins_file);
    const next = new Map(
      await Promise.all(NODES.map(async (node_id) => [node_id, await makeCertificate(node_id, { days: 90 })] as const)),
    );
    const new_pins = [...next.values()].map(({ certificate }) => certificate).join("");
    const { runs } = await underLoad(cluster, async () => {
      await runsStartOnBoth(cluster);
      await allTake(cluster, () => Deno.writeTextFileSync(pins_file, old_pins + new_pins)); // the same file for all
      await allTake(cluster, () => writeAll(cluster, next), next);
      await runsStartOnBoth(cluster);
      await rest(OLD_CHANNEL_MS + 1_000); // the overlap that is needed: connections of before come to their end
      await allTake(cluster, () => Deno.writeTextFileSync(pins_file, new_pins));
      await runsStartOnBoth(cluster);
    });
    await nobodyWasRefused(cluster, runs);
  }, OPTIONS);
});

Deno.test("with an authority, certificates are renewed and then the authority is replaced, under load", async () => {
  const [authority, successor] = await Promise.all(
    ["company", "successor"].map((name) => makeAuthority(name, { days: 900 })),
  );
  assert(authority && successor);
  await withProcesses(0, async (cluster) => {
    const ca_file = (await cluster.tlsOf("node-1")).pins_file.replace("node-1/pins.pem", "ca.crt");
    Deno.writeTextFileSync(ca_file, authority.certificate);
    for (const node_id of NODES) {
      await write(cluster, node_id, await makeCertificate(node_id, { days: 90, authority }));
      const env = { SCHEDULER_TLS_CA_FILE: ca_file, SCHEDULER_TLS_PINS_FILE: "" };
      await cluster.startWorker({ node_id, env });
    }
    await cluster.hears("leader.elected");
    const renew = async (by: CertificateAuthority) => {
      const next = new Map<string, NodeCertificate>();
      for (const node_id of NODES) next.set(node_id, await makeCertificate(node_id, { days: 90, authority: by }));
      await allTake(cluster, () => writeAll(cluster, next), next);
      await runsStartOnBoth(cluster);
    };
    const { runs } = await underLoad(cluster, async () => {
      await runsStartOnBoth(cluster);
      await renew(authority); // nothing is told to the peers
      await allTake(cluster, () => Deno.writeTextFileSync(ca_file, authority.certificate + successor.certificate));
      await renew(successor);
      await rest(OLD_CHANNEL_MS + 1_000);
      await allTake(cluster, () => Deno.writeTextFileSync(ca_file, successor.certificate));
      await runsStartOnBoth(cluster);
    });
    await nobodyWasRefused(cluster, runs);
  }, OPTIONS);
});

Deno.test("a certificate that is no good is not taken under load, and is said once", async () => {
  await withProcesses(3, async (cluster) => {
    await cluster.hears("leader.elected");
    const { cert_file, key_file } = await cluster.tlsOf("node-2");
    const [certificate, key] = [Deno.readTextFileSync(cert_file), Deno.readTextFileSync(key_file)];
    const other = await makeCertificate("node-2", { days: 90 });
    const { runs } = await underLoad(cluster, async () => {
      Deno.writeTextFileSync(key_file, other.private_key); // half of a pair
      const torn = await cluster.hears("tls.kept");
      assert.match(torn.problem, /tls\.key" is not the key of ".*tls\.crt"/);
      Deno.writeTextFileSync(cert_file, other.certificate); // a pair now, but nobody has its pin
      const unpinned = await cluster.hears("tls.kept", {}, { after: torn });
      assert.match(unpinned.problem, /pins \d+ certificates but not this node's own/);
      await runsStartOnBoth(cluster);
      Deno.writeTextFileSync(key_file, key);
      Deno.writeTextFileSync(cert_file, certificate);
      await cluster.hears("tls.reloaded", {}, { after: unpinned });
    });
    await nobodyWasRefused(cluster, runs);
    assert.ok(cluster.times("tls.kept") <= 3, "each once; between the two last writes it may have been looked at");
  }, OPTIONS);
});

Deno.test("a worker that comes back under a new id does so with the certificate in use, whatever lies on the disk", async () => {
  await withProcesses(1, async (cluster) => {
    const before = await cluster.hears("worker.ready");
    const { cert_file } = await cluster.tlsOf("node-1");
    const [row] = await cluster.sql`select tls_fingerprint from worker`;
    Deno.writeTextFileSync(cert_file, "nonsense");
    await cluster.sql`update worker set state = 'DEAD'`;
    const back = await cluster.hears("worker.ready", {}, { after: before });
    assert.notEqual(back.worker_id, before.worker_id);
    const [again] = await cluster.sql`select tls_fingerprint from worker where worker_id = ${back.worker_id}`;
    assert.equal(again?.tls_fingerprint, row?.tls_fingerprint);
    assert.equal((await cluster.ends(await cluster.enqueue("append_one_row"))).state, "SUCCEEDED");
  }, { env: OPTIONS.env });
});

/** Key first, then the certificate: in between they do not match, and a look at that moment is said, and passes. */
async function write(cluster: Cluster, node_id: string, identity: NodeCertificate): Promise<void> {
  const { cert_file, key_file } = await cluster.tlsOf(node_id);
  Deno.writeTextFileSync(key_file, identity.private_key);
  Deno.writeTextFileSync(cert_file, identity.certificate);
}

async function writeAll(cluster: Cluster, identities: Map<string, NodeCertificate>): Promise<void> {
  for (const [node_id, identity] of identities) await write(cluster, node_id, identity);
}

/** Writes, and waits until every worker has taken what is on disk then: its own new certificate, or whatever came last. */
async function allTake(
  cluster: Cluster,
  write: () => void | Promise<void>,
  next?: Map<string, NodeCertificate>,
): Promise<void> {
  const { place } = cluster.hearing.last;
  await write();
  for (const node_id of NODES) {
    const fingerprint = next?.get(node_id)?.fingerprint;
    await cluster.hearing.waitFor(`tls.reloaded of ${node_id}`, ({ who, text }) => {
      if (who !== node_id || !text.startsWith('{"fact":"tls.reloaded"')) return undefined;
      return !fingerprint || text.includes(fingerprint) || undefined;
    }, place);
  }
}

/** Until both workers that do not lead have started a run from now on. */
async function runsStartOnBoth(cluster: Cluster): Promise<void> {
  const from = cluster.hearing.last.place;
  await waitFor("runs on two workers", () => {
    const starts = cluster.hearing.lines.slice(from).filter(({ text }) => text.startsWith('{"fact":"run.started"'));
    return Promise.resolve(new Set(starts.map(({ who }) => who)).size >= 2 || undefined);
  });
}

/** What a busy machine may do, as a call that comes too late, is no matter here; that peers refuse each other is. */
async function nobodyWasRefused(cluster: Cluster, runs: number): Promise<void> {
  const refused = cluster.hearing.lines.filter(({ text }) => text.startsWith('{"fact":"peer.refused"'))
    .map(({ who, text }) => `${who} ${text}`).filter((text) => !text.includes('"theirs":"unknown"'));
  assert.deepEqual(refused, []);
  assert.equal(cluster.times("process.started"), 3);
  const [count] = await cluster.sql`select count(*)::int as runs from job_run`;
  assert.equal(count?.runs, runs);
  await nothingLostOrCharged(cluster);
}
