/** An authority vouches instead of pins: for whom, under which name, for how long, and for whom it cannot. */
import "reflect-metadata";
import assert from "node:assert/strict";
import * as x509 from "@peculiar/x509";
import type { TlsFiles } from "../../src/platform/config.ts";
import type { Facts } from "../../src/platform/facts.ts";
import { within } from "../../src/platform/timers.ts";
import {
  type CertificateAuthority,
  makeAuthority,
  makeCertificate,
  type NodeCertificate,
} from "../../src/rpc/certificates.ts";
import { isNamed, isVersion3, namesIn } from "../../src/rpc/der.ts";
import { Peers } from "../../src/rpc/peers.ts";
import { readTlsFiles } from "../../src/rpc/tls_files.ts";
import { Tls } from "../../src/rpc/tls.ts";
import { certificatesIn, shownBy } from "../../src/rpc/trust.ts";
import { aCertifiedNode, aNode, asLeader, at, patiently, withServer, writeIdentity } from "../support/cluster_peers.ts";
import { ANSWER_MS, bytesFrom, hearing, until, withBareServer } from "../support/tls_strangers.ts";

const EXPIRED = { days: 1, from: new Date("2020-01-01T00:00:00Z") };

Deno.test("peers of one authority let each other in without pins, and know each other by name and certificate", async () => {
  const { server, client } = await certifiedPair();
  await withServer({ server, client }, async ({ port, callers }, peers) => {
    const there = { ...at(port, server.fingerprint), node_id: "web-1" };
    assert.ok((await peers.to(there).ping(asLeader, patiently)).ok);
    assert.equal(callers[0]?.fingerprint, client.fingerprint);
  });
});

Deno.test("a server of the authority that is not the node meant is refused", async () => {
  const { server, client } = await certifiedPair();
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client }, async ({ port, callers }, peers) => {
      const answer = await peers.to({ ...at(port), node_id: "web-7" }).ping(asLeader);
      assert.match(answer.ok ? "" : answer.message, /its certificate is for web-1, and the node meant is web-7/);
      assert.equal(callers.length, 0);
      assert.deepEqual(pick(heard[0]), { theirs: server.fingerprint, ours: client.fingerprint });
    });
  });
});

Deno.test("a client of another authority is refused, and both fingerprints are in the log", async () => {
  const { server } = await certifiedPair();
  const stranger = await aCertifiedNode(await makeAuthority("another", { days: 1 }), "web-2");
  Deno.writeTextFileSync(stranger.files.ca_file, Deno.readTextFileSync(server.files.ca_file), { append: true });
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client: stranger }, async ({ port, callers }, peers) => {
      assert.equal((await peers.to(at(port)).ping(asLeader)).ok, false);
      assert.equal(callers.length, 0);
      assert.deepEqual(pick(heard[0]), { theirs: stranger.fingerprint, ours: server.fingerprint });
      assert.match(heard[0]!.reason, /no authority of the CA file has signed its certificate/);
    });
  });
});

Deno.test("a server of another authority is refused, and both fingerprints are in the log", async () => {
  const { client } = await certifiedPair();
  const stranger = await makeCertificate("web-1", { days: 1, authority: await makeAuthority("another", { days: 1 }) });
  await withBareServer(stranger, (port) =>
    refused(client, port, {
      theirs: stranger.fingerprint,
      reason: /no authority of the CA file has signed its certificate/,
    }));
});

Deno.test("an authority of the same name with another key vouches for nobody", async () => {
  const { client } = await certifiedPair();
  const impostor = await makeCertificate("web-1", { days: 1, authority: await makeAuthority("company", { days: 1 }) });
  await withBareServer(
    impostor,
    (port) => refused(client, port, { theirs: impostor.fingerprint, reason: /no authority/ }),
  );
});

Deno.test("an expired certificate of the authority is refused both ways", async () => {
  const { authority, server, client } = await certifiedPair();
  const expired = await makeCertificate("web-1", { ...EXPIRED, authority });
  await withBareServer(
    expired,
    (port) => refused(client, port, { theirs: expired.fingerprint, reason: /its certificate expired on 2020-01-02/ }),
  );
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client }, async ({ port }) => {
      assert.equal(await bytesFrom(port, expired), 0);
      assert.deepEqual(pick(heard[0]), { theirs: expired.fingerprint, ours: server.fingerprint });
      assert.match(heard[0]!.reason, /its certificate expired on 2020-01-02/);
    });
  });
});

Deno.test("an authority that has expired vouches for nobody any more", async () => {
  const { server } = await certifiedPair();
  const old = await makeAuthority("old", EXPIRED);
  const node = await makeCertificate("web-2", { days: 1, authority: old });
  Deno.writeTextFileSync(server.files.ca_file, old.certificate, { append: true });
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client: server }, async ({ port }) => {
      assert.equal(await bytesFrom(port, node), 0);
      assert.match(heard[0]!.reason, /the certificate of its authority "CN=old" expired on 2020-01-02/);
    });
  });
});

Deno.test("a node's certificate signs for nobody, though an authority vouches for the node", async () => {
  const { server, client } = await certifiedPair();
  const forged = await makeCertificate("web-1", { days: 1, authority: client });
  const shown = { ...forged, certificate: forged.certificate + client.certificate };
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client }, async ({ port }) => {
      assert.ok(await bytesFrom(port, client) > 0, "the node itself is served");
      assert.equal(await bytesFrom(port, shown), 0);
      assert.equal(heard[0]!.theirs, forged.fingerprint);
    });
  });
});

Deno.test("an authority in between is accepted when its own certificate is shown with the node's", async () => {
  const root = await anAuthority("company");
  const between = await anAuthority("scheduler", root);
  const [server, client] = await Promise.all(["web-1", "web-2"].map(async (name) => {
    const node = await aCertifiedNode(root, name);
    const made = await makeCertificate(name, { days: 1, authority: between });
    writeIdentity(node, { ...made, certificate: made.certificate + between.certificate });
    return { ...node, fingerprint: made.fingerprint };
  }));
  assert(server && client);
  await withServer({ server, client }, async ({ port, callers }, peers) => {
    assert.ok((await peers.to({ ...at(port, server.fingerprint), node_id: "web-1" }).ping(asLeader, patiently)).ok);
    assert.equal(callers[0]?.fingerprint, client.fingerprint);
  });
});

Deno.test("what the TLS library lets through is judged again, and that alone would do", async () => {
  const { authority, server } = await certifiedPair();
  const tls = new Tls(server.files);
  const web = await makeAuthority("of the web", { days: 1 });
  const judged = (identity: NodeCertificate, issuer?: CertificateAuthority) =>
    tls.refusal(shown(identity, issuer), { fingerprints: [], node_id: "web-2" });
  const good = await makeCertificate("web-2", { days: 1, authority });
  assert.equal(judged(good, authority), undefined);
  assert.equal(judged(good), undefined, "its authority is known here, shown or not");
  assert.match(
    judged(await makeCertificate("web-2", { days: 1, authority: web }), web) ?? "",
    /no authority of the CA file/,
  );
  assert.match(judged(await makeCertificate("web-2", { days: 1 })) ?? "", /no authority of the CA file/);
  assert.match(judged(await makeCertificate("web-2", { days: 1, authority: good }), good) ?? "", /no authority/);
  assert.match(judged(await makeCertificate("web-2", { ...EXPIRED, authority })) ?? "", /expired on 2020/);
  assert.match(
    judged(await makeCertificate("web-3", { days: 1, authority })) ?? "",
    /is for web-3, and the node meant is web-2/,
  );
  await tls.close();
});

Deno.test("a renewed certificate of a node is good at once, without any file at its peers", async () => {
  const { authority, server, client } = await certifiedPair();
  await withServer({ server, client }, async ({ port, tls, callers }, peers, client_tls) => {
    const there = { ...at(port), node_id: "web-1" };
    assert.ok((await peers.to(there).ping(asLeader, patiently)).ok);
    const [next, next_client] = await Promise.all(
      ["web-1", "web-2"].map((name) => makeCertificate(name, { days: 1, authority })),
    ) as [NodeCertificate, NodeCertificate];
    writeIdentity(server, next);
    writeIdentity(client, next_client);
    await until(() => tls.fingerprint === next.fingerprint && client_tls.fingerprint === next_client.fingerprint);
    assert.ok((await peers.to(there).ping(asLeader, patiently)).ok);
    assert.deepEqual(callers.map((one) => one.fingerprint), [client.fingerprint, next_client.fingerprint]);
    assert.deepEqual([tls.former_fingerprint, client_tls.former_fingerprint], [server.fingerprint, client.fingerprint]);
  });
});

Deno.test("one Secret for all pods, as Kubernetes mounts it: a name with *, and all files swapped by one link", async () => {
  const authority = await makeAuthority("scheduler-ca", { days: 1 });
  const issue = () => makeCertificate("scheduler", { days: 1, authority, hosts: ["*.scheduler-worker"] });
  const [first, second] = await Promise.all([issue(), issue()]);
  const pods = ["scheduler-worker-0.scheduler-worker", "scheduler-worker-1.scheduler-worker"].map((node_id) => {
    const dir = Deno.makeTempDirSync({ prefix: "dandori-secret-" });
    addEventListener("unload", () => Deno.removeSync(dir, { recursive: true }));
    const mount = (identity: NodeCertificate, version: string) => {
      Deno.mkdirSync(`${dir}/..${version}`);
      Deno.writeTextFileSync(`${dir}/..${version}/tls.crt`, identity.certificate);
      Deno.writeTextFileSync(`${dir}/..${version}/tls.key`, identity.private_key);
      Deno.writeTextFileSync(`${dir}/..${version}/ca.crt`, authority.certificate);
      Deno.symlinkSync(`..${version}`, `${dir}/..data_tmp`);
      Deno.renameSync(`${dir}/..data_tmp`, `${dir}/..data`);
    };
    mount(first, "2026_1");
    for (const name of ["tls.crt", "tls.key", "ca.crt"]) Deno.symlinkSync(`..data/${name}`, `${dir}/${name}`);
    const files = { cert_file: `${dir}/tls.crt`, key_file: `${dir}/tls.key`, ca_file: `${dir}/ca.crt`, node_id };
    return { files, renew: () => mount(second, "2026_2") };
  });
  const [server, client] = pods as [typeof pods[0], typeof pods[0]];
  await hearing("tls.kept", async (kept) => {
    await withServer({ server, client }, async ({ port, tls }, peers, client_tls) => {
      const peer = peers.to({ ...at(port), node_id: server.files.node_id });
      const works = async () => assert.ok((await peer.ping(asLeader, patiently)).ok);
      await works();
      server.renew(); // kubelets are minutes apart
      await until(() => tls.fingerprint === second.fingerprint);
      await works();
      client.renew();
      await until(() => client_tls.fingerprint === second.fingerprint);
      await works();
      assert.deepEqual(kept, []);
    });
  });
});

Deno.test("a CA file that changes on disk lets another authority's nodes in, and cuts them when it leaves", async () => {
  const { server } = await certifiedPair();
  const other = await makeAuthority("successor", { days: 1 });
  const client = await aCertifiedNode(other, "web-2");
  const before = Deno.readTextFileSync(server.files.ca_file);
  Deno.writeTextFileSync(client.files.ca_file, before, { append: true });
  await withServer({ server, client }, async ({ port, tls }, peers) => {
    const peer = peers.to({ ...at(port), node_id: "web-1" });
    assert.equal((await peer.ping(asLeader)).ok, false);
    Deno.writeTextFileSync(server.files.ca_file, before + other.certificate);
    await until(() => tls.generation === 2);
    await until(async () => (await peer.ping(asLeader)).ok);
    const [began, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    peer.watch(asLeader, { onStatus: () => began.resolve(), onEnd: () => ended.resolve() });
    await within(ANSWER_MS, "the first status", began.promise);
    Deno.writeTextFileSync(server.files.ca_file, before);
    await within(ANSWER_MS, "the end of the stream", ended.promise);
    assert.equal((await peer.ping(asLeader)).ok, false);
  });
});

Deno.test("with pins and authorities both, either is enough: so a cluster goes over from one to the other", async () => {
  const { authority, server } = await certifiedPair();
  const pinned = await aNode("pinned");
  const { pins_file } = pinned.files;
  const both = { ...server, files: { ...server.files, pins_file } };
  const moving = { ...pinned, files: { ...pinned.files, ca_file: server.files.ca_file } };
  const certified = await aCertifiedNode(authority, "web-3");
  for (const client of [moving, certified]) {
    await withServer({ server: both, client }, async ({ port, callers }, peers) => {
      assert.ok((await peers.to({ ...at(port), node_id: "web-1" }).ping(asLeader, patiently)).ok);
      assert.equal(callers[0]?.fingerprint, client.fingerprint);
    });
  }
  const nobody = await aCertifiedNode(await makeAuthority("another", { days: 1 }), "web-4");
  await hearing("peer.refused", async (heard) => {
    await withServer({ server: both, client: nobody }, async ({ port }) => {
      assert.equal(await bytesFrom(port, nobody), 0);
      assert.match(heard[0]!.reason, /not pinned here, and no authority of the CA file has signed/);
    });
  });
});

Deno.test("files that peers would refuse are refused first, with the fix", async () => {
  const { authority, server } = await certifiedPair();
  assert.equal(readTlsFiles(server.files).trust.authorities.length, 1);
  const misnamed: TlsFiles = { ...server.files, node_id: "web-9" };
  assert.throws(
    () => readTlsFiles(misnamed),
    /peers would refuse ".*tls\.crt".*for web-1, and the node meant is web-9; .* or set SCHEDULER_NODE_ID to one of them/,
  );
  Deno.writeTextFileSync(server.files.ca_file, (await makeAuthority("another", { days: 1 })).certificate);
  assert.throws(() => readTlsFiles(server.files), /no authority of the CA file has signed its certificate/);
  Deno.writeTextFileSync(server.files.ca_file, (await makeCertificate("web-1", { days: 1 })).certificate);
  assert.throws(() => readTlsFiles(server.files), /which is no authority's.*pin it: SCHEDULER_TLS_PINS_FILE/);
  Deno.writeTextFileSync(server.files.ca_file, authority.certificate + authority.private_key);
  assert.throws(() => readTlsFiles(server.files), /ca\.crt" holds a private key/);
  const { ca_file: _, ...pinning } = { ...server.files, pins_file: server.files.cert_file };
  assert.throws(() => readTlsFiles(pinning), /pins [0-9A-F:]{95}, which "CN=company" has signed: put that authority/);
  Deno.removeSync(server.files.ca_file);
  assert.throws(() => readTlsFiles(server.files), /cannot read ".*ca\.crt".*SCHEDULER_TLS_CA_FILE/);
});

Deno.test("names are read from the certificate's bytes: no common name, no name within a name", async () => {
  const odd = await withNames("web-9", ["Web-1", "*.workers", "evil, DNS:web-9"]);
  const { raw } = certificatesIn(odd)[0]!.x509;
  assert.deepEqual(namesIn(raw), ["web-1", "*.workers", "evil, dns:web-9"]);
  assert.ok(isVersion3(raw));
  for (const node_id of ["web-1", "WEB-1", "w-1.workers", "W-2.Workers"]) {
    assert.ok(isNamed(namesIn(raw), node_id), node_id);
  }
  for (const node_id of ["web-9", "workers", ".workers", "a.b.workers", "web", ""]) {
    assert.ok(!isNamed(namesIn(raw), node_id), node_id);
  }
  const [plain] = certificatesIn((await makeCertificate("10.0.0.9", { days: 1 })).certificate);
  assert.ok(namesIn(plain!.x509.raw).includes("10.0.0.9"));
  const garbage = crypto.getRandomValues(new Uint8Array(200));
  assert.deepEqual([namesIn(garbage), namesIn(raw.subarray(0, 300))], [[], []]);
});

async function certifiedPair() {
  const authority = await makeAuthority("company", { days: 1 });
  const [server, client] = await Promise.all([aCertifiedNode(authority, "web-1"), aCertifiedNode(authority, "web-2")]);
  return { authority, server, client };
}

function shown(...path: (NodeCertificate | undefined)[]) {
  return shownBy(path.flatMap((one) => one ? certificatesIn(one.certificate).map(({ x509 }) => x509.raw) : []));
}

function pick(fact: Facts["peer.refused"] | undefined) {
  return { theirs: fact?.theirs, ours: fact?.ours };
}

async function refused(
  client: { files: TlsFiles; fingerprint: string },
  port: number,
  how: { theirs: string; reason: RegExp },
): Promise<void> {
  const tls = new Tls(client.files);
  const peers = new Peers(tls);
  await hearing("peer.refused", async (heard) => {
    const answer = await peers.to({ ...at(port), node_id: "web-1" }).ping(asLeader);
    assert.equal(!answer.ok && answer.code, "UNAVAILABLE");
    await until(() => heard.length > 0);
    assert.match(heard[0]!.reason, how.reason);
    assert.deepEqual(pick(heard[0]), { theirs: how.theirs, ours: client.fingerprint });
  });
  peers.close();
  await tls.close();
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

/** One that may sign further authorities. */
async function anAuthority(name: string, issuer?: CertificateAuthority): Promise<CertificateAuthority> {
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]) as CryptoKeyPair;
  const der = issuer && x509.PemConverter.decodeFirst(issuer.private_key);
  const made = await x509.X509CertificateGenerator.create({
    subject: `CN=${name}`,
    issuer: issuer ? new x509.X509Certificate(issuer.certificate).subject : `CN=${name}`,
    publicKey: keys.publicKey,
    signingKey: der ? await crypto.subtle.importKey("pkcs8", der, ALGORITHM, false, ["sign"]) : keys.privateKey,
    signingAlgorithm: ALGORITHM,
    extensions: [new x509.BasicConstraintsExtension(true, undefined, true)],
  });
  const key = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
  return {
    certificate: made.toString("pem") + "\n",
    private_key: x509.PemConverter.encode(key, "PRIVATE KEY"),
    fingerprint: "",
  };
}

async function withNames(common_name: string, names: string[]): Promise<string> {
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]) as CryptoKeyPair;
  const made = await x509.X509CertificateGenerator.createSelfSigned({
    name: `CN=${common_name}`,
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [new x509.SubjectAlternativeNameExtension(names.map((value) => ({ type: "dns" as const, value })))],
  });
  return made.toString("pem");
}
