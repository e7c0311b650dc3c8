/** Certificates as they are made and read: what is refused, and what the error says. */
import assert from "node:assert/strict";
import { addPin, ensureDevCerts, makeCertificate } from "../../src/rpc/certificates.ts";
import { readTlsFiles } from "../../src/rpc/tls_files.ts";
import { certificatesIn } from "../../src/rpc/trust.ts";
import { aNode, type TestNode, writeIdentity, writePins } from "../support/cluster_peers.ts";

// openssl x509 -req -signkey ... -days 36500: without extensions it makes X.509 v1.
const V1_CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBFTCBvQIUAMRfRyvZ3bxctSjqhf3kwbk1Y+swCgYIKoZIzj0EAwIwDTELMAkG
A1UEAwwCdjEwIBcNMjYxMTIwMjAwNzA3WhgPMjEyNjEwMjcyMDA3MDdaMA0xCzAJ
BgNVBAMMAnYxMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEurVpWPk7OzsKblO7
h0Ggj/pj2SiTBYEyHgDWI6MKm5aCqY4iC9Eqe10fm60jtyH5NKy8dpJnyUcqcQ9c
wZbVpDAKBggqhkjOPQQDAgNHADBEAiAYOOccj/YKMlqNu39YIMrzq/fQXvedeWkx
OBPiiHB4wgIgGCQeJGnD9DtZVpSs8tHHL97BHE4/whnsy01HEfRTqLc=
-----END CERTIFICATE-----
`;

Deno.test("a node's certificate names it, this host, and both uses", async () => {
  const { certificate, private_key, fingerprint } = await makeCertificate("node-7", { days: 30, hosts: ["10.0.0.9"] });
  const [parsed] = certificatesIn(certificate);
  assert.equal(parsed!.subject, "CN=node-7");
  assert.equal(parsed!.fingerprint, fingerprint);
  assert.match(fingerprint, /^([0-9A-F]{2}:){31}[0-9A-F]{2}$/);
  for (const name of ["DNS:node-7", "DNS:localhost", "IP Address:127.0.0.1", "IP Address:10.0.0.9"]) {
    assert.ok(parsed!.x509.subjectAltName!.includes(name), name);
  }
  assert.equal(parsed!.x509.ca, false);
  const days = (parsed!.not_after.getTime() - parsed!.not_before.getTime()) / 86_400_000;
  assert.equal(Math.round(days), 30);
  assert.match(private_key, /^-----BEGIN PRIVATE KEY-----/);
});

Deno.test("a pin is added once", async () => {
  const [one, other] = await Promise.all([makeCertificate("one", { days: 1 }), makeCertificate("other", { days: 1 })]);
  const bundle = addPin(addPin("", one.certificate).trimEnd(), other.certificate);
  assert.equal(addPin(bundle, one.certificate), bundle);
  assert.deepEqual(certificatesIn(bundle).map((pin) => pin.fingerprint), [one.fingerprint, other.fingerprint]);
});

Deno.test("development certificates are made once, complete, and for their owner's eyes only", async () => {
  const dir = Deno.makeTempDirSync();
  addEventListener("unload", () => Deno.removeSync(dir, { recursive: true }));
  const files = await ensureDevCerts(`${dir}/tls`, ["n1", "n2"]);
  const first = readTlsFiles(files.n1!);
  assert.equal(first.trust.pins.size, 2);
  assert.notEqual(first.certificate.fingerprint, readTlsFiles(files.n2!).certificate.fingerprint);
  assert.equal(Deno.statSync(files.n1!.key_file).mode! & 0o777, 0o600);
  assert.equal(Deno.statSync(`${dir}/tls`).mode! & 0o777, 0o700);
  const again = await ensureDevCerts(`${dir}/tls`, ["n1", "n2", "n3"]);
  assert.equal(readTlsFiles(again.n1!).certificate.fingerprint, first.certificate.fingerprint);
  assert.equal(readTlsFiles(files.n1!).trust.pins.size, 3, "all share the pins");
  await assert.rejects(ensureDevCerts(`${dir}/tls`, [".."]), /Cannot make certificate for node "\.\."/);
});

Deno.test("a broken development certificate is made anew", async () => {
  const dir = Deno.makeTempDirSync();
  addEventListener("unload", () => Deno.removeSync(dir, { recursive: true }));
  const { n1 } = await ensureDevCerts(dir, ["n1"]);
  const before = readTlsFiles(n1!).certificate.fingerprint;
  Deno.writeTextFileSync(n1!.key_file, "nonsense");
  await ensureDevCerts(dir, ["n1"]);
  const after = readTlsFiles(n1!);
  assert.notEqual(after.certificate.fingerprint, before);
  assert.ok(after.trust.pins.has(before), "the old pin stays until it expires");
});

const WRONG: { name: string; make: (node: TestNode) => void | Promise<void>; says: RegExp[] }[] = [
  {
    name: "a missing file",
    make: (node) => Deno.removeSync(node.files.cert_file),
    says: [/cannot read ".*tls\.crt": there is no such file; name another with SCHEDULER_TLS_CERT_FILE/],
  },
  {
    name: "a key of another certificate",
    make: async (node) =>
      Deno.writeTextFileSync(node.files.key_file, (await makeCertificate("x", { days: 1 })).private_key),
    says: [/"(.*)tls\.key" is not the key of ".*tls\.crt": replace both together/],
  },
  {
    name: "a key that is none",
    make: (node) =>
      Deno.writeTextFileSync(node.files.key_file, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
    says: [/tls\.key" holds no private key that can be read/],
  },
  {
    name: "a certificate that is none",
    make: (node) => Deno.writeTextFileSync(node.files.cert_file, "hello"),
    says: [/tls\.crt" holds no certificate/],
  },
  {
    name: "an expired certificate",
    make: async (node) => {
      const old = await makeCertificate("x", { days: 1, from: new Date("2020-01-01T00:00:00Z") });
      writeIdentity(node, old);
      writePins(node, [old]);
    },
    says: [/tls\.crt" expired on 2020-01-02T00:00:00\.000Z: make a new one/],
  },
  {
    name: "a certificate of the future",
    make: async (node) => {
      const future = await makeCertificate("x", { days: 1, from: new Date("2090-01-01T00:00:00Z") });
      writeIdentity(node, future);
      writePins(node, [future]);
    },
    says: [/tls\.crt" is not valid before 2090/],
  },
  {
    name: "own certificate not pinned",
    make: async (node) => writePins(node, [await makeCertificate("x", { days: 1 })]),
    says: [/pins\.pem" pins 1 certificates but not this node's own [0-9A-F:]{95}.*cat .*tls\.crt >> .*pins\.pem/],
  },
  { name: "no pins", make: (node) => writePins(node, []), says: [/pins\.pem" pins no certificate/] },
  {
    name: "a key among the pins",
    make: (node) => Deno.writeTextFileSync(node.files.pins_file, node.certificate + node.private_key),
    says: [/pins\.pem" holds a private key/],
  },
  {
    name: "a pin of X.509 v1",
    make: (node) => Deno.writeTextFileSync(node.files.pins_file, node.certificate + V1_CERTIFICATE),
    says: [/pins\.pem" pins [0-9A-F:]{95}, an X\.509 v1 certificate/],
  },
  {
    name: "several problems at once",
    make: (node) => {
      Deno.removeSync(node.files.key_file);
      writePins(node, []);
    },
    says: [/SCHEDULER_TLS_KEY_FILE/, /pins no certificate/],
  },
];
for (const { name, make, says } of WRONG) {
  Deno.test(`TLS files with ${name} are refused with the fix`, async () => {
    const node = await aNode("n");
    assert.equal(readTlsFiles(node.files).certificate.fingerprint, node.fingerprint);
    await make(node);
    for (const words of says) assert.throws(() => readTlsFiles(node.files), words);
  });
}
