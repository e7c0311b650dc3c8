/** Real handshakes, both ways: who is let in, who is not, and what happens when the files change. */
import assert from "node:assert/strict";
import type { Facts } from "../../../src/platform/facts.ts";
import { within } from "../../../src/platform/timers.ts";
import { fromFileUrl } from "../../../src/platform/paths.ts";
import { makeCertificate, type NodeCertificate } from "../../../src/rpc/certificates.ts";
import { type PeerAddress, Peers } from "../../../src/rpc/peers.ts";
import { Tls } from "../../../src/rpc/tls.ts";
import {
  aNode,
  asLeader,
  at,
  patiently,
  type TestNode,
  twoNodes,
  withServer,
  writeIdentity,
  writePins,
} from "../../support/cluster_peers.ts";
import { ANSWER_MS, answerToTls12, bytesFrom, hearing, until, withBareServer } from "../../support/tls_strangers.ts";

const DAY_MS = 86_400_000;

Deno.test("pinned peers are let in, and the handler knows by which certificate", async () => {
  const [server, client] = await twoNodes();
  await withServer({ server, client }, async ({ port, callers }, peers) => {
    const answer = await peers.to(at(port, server.fingerprint)).ping(asLeader, patiently);
    assert.ok(answer.ok);
    assert.equal(callers[0]?.fingerprint, client.fingerprint);
  });
});

Deno.test("a client that is not pinned is refused, and both fingerprints are in the log", async () => {
  const server = await aNode("server");
  const client = await aNode("client", { pins: [server] });
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client }, async ({ port, callers }, peers) => {
      const answer = await peers.to(at(port)).ping(asLeader);
      assert.equal(!answer.ok && answer.code, "UNAVAILABLE");
      assert.equal(callers.length, 0);
      assert.deepEqual(pick(heard[0]), { theirs: client.fingerprint, ours: server.fingerprint });
      assert.match(heard[0]!.reason, /client 127\.0\.0\.1: its certificate is not pinned here/);
    });
  });
});

Deno.test("a client without a certificate is told nothing", async () => {
  const [server, client] = await twoNodes();
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client }, async ({ port }) => {
      assert.equal(await bytesFrom(port), 0);
      assert.match(heard[0]!.reason, /it showed no certificate/);
    });
  });
});

Deno.test("TLS 1.2 is refused in the handshake, whoever speaks it", async () => {
  const [server, client] = await twoNodes();
  const [HANDSHAKE, ALERT, PROTOCOL_VERSION] = [0x16, 0x15, 70];
  await withServer({ server, client }, async ({ port }) => {
    assert.deepEqual(await answerToTls12(port), { record: ALERT, alert: PROTOCOL_VERSION });
  });
  await withBareServer(await makeCertificate("server", { days: 1 }), async (port) => {
    assert.equal((await answerToTls12(port)).record, HANDSHAKE, "one that takes it goes on");
  });
});

Deno.test("a server that speaks TLS 1.2 at most is told nothing, though its certificate is pinned", async () => {
  const client = await aNode("client");
  const old = await makeCertificate("server", { days: 1 });
  writePins(client, [client, old]);
  const tls = new Tls(client.files);
  const peers = new Peers(tls);
  await withBareServer(old, async (port, taken) => {
    const answer = await peers.to(at(port)).ping(asLeader);
    assert.match(answer.ok ? "" : answer.message, /ProtocolVersion/);
    assert.equal(await tls.whoIsAt("127.0.0.1", port), undefined);
    assert.equal(taken.size, 0);
  }, "TLSv1.2");
  await withBareServer(old, async (port) => {
    assert.equal((await tls.whoIsAt("127.0.0.1", port))?.certificate.fingerprint, old.fingerprint);
  });
  peers.close();
  await tls.close();
});

Deno.test("a pinned client whose certificate has expired is refused", async () => {
  const server = await aNode("server");
  const expired = await makeCertificate("client", { days: 1, from: new Date("2020-01-01T00:00:00Z") });
  writePins(server, [server, expired]);
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client: server }, async ({ port }) => {
      assert.equal(await bytesFrom(port, expired), 0);
      assert.match(heard[0]!.reason, /its certificate expired on 2020-01-02/);
      assert.deepEqual(pick(heard[0]), { theirs: expired.fingerprint, ours: server.fingerprint });
    });
  });
});

Deno.test("a certificate that a pinned key signed is not a pinned one", async () => {
  const server = await aNode("server");
  const pinned = await aNode("pinned");
  writePins(server, [server, pinned]);
  const forged = await signedBy(pinned, "forged");
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client: server }, async ({ port }) => {
      assert.ok(await bytesFrom(port, pinned) > 0, "the pinned one itself is served");
      assert.equal(await bytesFrom(port, forged), 0);
      assert.match(heard[0]!.reason, /its certificate is not pinned here/);
      assert.equal(heard[0]!.theirs, forged.fingerprint);
    });
  });
});

Deno.test("a server that is not pinned is refused before a call reaches it, and both fingerprints are in the log", async () => {
  const client = await aNode("client");
  const server = await aNode("server", { pins: [client] });
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client }, async ({ port, callers }, peers) => {
      const answer = await peers.to(at(port)).ping(asLeader);
      assert.equal(!answer.ok && answer.code, "UNAVAILABLE");
      assert.equal(callers.length, 0);
      const named = () => heard.find((fact) => fact.reason.startsWith("server of w1-00000000"));
      await until(() => named() !== undefined);
      assert.deepEqual(pick(named()), { theirs: server.fingerprint, ours: client.fingerprint });
    });
  });
});

Deno.test("a pinned server whose certificate has expired is refused", async () => {
  const client = await aNode("client");
  const expired = await makeCertificate("server", { days: 1, from: new Date("2020-01-01T00:00:00Z") });
  writePins(client, [client, expired]);
  const reason = /its certificate expired on 2020-01-02/;
  await withBareServer(expired, (port) => refusedBy(client, port, { reason, theirs: expired.fingerprint }));
});

Deno.test("a pinned server that is another worker than the one meant is refused", async () => {
  const [server, client] = await twoNodes();
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client }, async ({ port, callers }, peers) => {
      const answer = await peers.to(at(port, client.fingerprint)).ping(asLeader);
      assert.match(answer.ok ? "" : answer.message, /the worker meant has certificate/);
      assert.equal(callers.length, 0);
      assert.deepEqual(pick(heard[0]), { theirs: server.fingerprint, ours: client.fingerprint });
      assert.ok((await peers.to(at(port, server.fingerprint)).ping(asLeader, patiently)).ok);
    });
  });
});

Deno.test("a server's certificate that a pinned key signed is refused", async () => {
  const client = await aNode("client");
  const pinned = await aNode("pinned");
  writePins(client, [client, pinned]);
  const forged = await signedBy(pinned, "forged");
  const reason = /its certificate is not pinned here/;
  await withBareServer(forged, (port) => refusedBy(client, port, { reason, theirs: forged.fingerprint }));
});

Deno.test("a pin that appears on disk lets its owner in, one that goes cuts its connections", async () => {
  const server = await aNode("server");
  const client = await aNode("client", { pins: [server] });
  await withServer({ server, client }, async ({ port, tls }, peers) => {
    const peer = peers.to(at(port));
    assert.equal((await peer.ping(asLeader)).ok, false);
    writePins(server, [server, client]);
    await until(() => tls.generation === 2);
    await until(async () => (await peer.ping(asLeader)).ok);

    const ended = Promise.withResolvers<void>();
    const began = Promise.withResolvers<void>();
    peer.watch(asLeader, { onStatus: () => began.resolve(), onEnd: () => ended.resolve() });
    await within(ANSWER_MS, "the first status", began.promise);
    writePins(server, [server]);
    await within(ANSWER_MS, "the end of the stream", ended.promise);
    assert.equal((await peer.ping(asLeader)).ok, false);
  });
});

Deno.test("a new certificate is used without a restart, and no call fails on the way", async () => {
  const [server, client] = await twoNodes();
  const next = await makeCertificate("server", { days: 1 });
  writePins(client, [client, server, next]);
  writePins(server, [server, client, next]);
  await withServer({ server, client }, async ({ port, tls }, peers, client_tls) => {
    const peer = peers.to(at(port));
    let swapped = false;
    const calls = (async () => {
      for (let after_swap = 0; after_swap < 20; after_swap += Number(swapped)) {
        const answer = await peer.ping(asLeader);
        assert.ok(answer.ok, JSON.stringify(answer));
      }
    })();
    writeIdentity(server, next); // key first, then certificate: in between they do not match
    await until(() => tls.fingerprint === next.fingerprint);
    swapped = true;
    await calls;
    assert.equal((await client_tls.whoIsAt("127.0.0.1", port))?.certificate.fingerprint, next.fingerprint);
    assert.ok((await peers.to({ ...at(port, next.fingerprint), worker_id: "w2" }).ping(asLeader, patiently)).ok);
  });
});

Deno.test("a client's new certificate is used for the calls that follow", async () => {
  const [server, client] = await twoNodes();
  const next = await makeCertificate("client", { days: 1 });
  writePins(client, [client, server, next]);
  writePins(server, [server, client, next]);
  await withServer({ server, client }, async ({ port, callers }, peers, client_tls) => {
    const peer = peers.to(at(port));
    assert.ok((await peer.ping(asLeader, patiently)).ok);
    writeIdentity(client, next);
    await until(() => client_tls.fingerprint === next.fingerprint);
    assert.ok((await peer.ping(asLeader, patiently)).ok);
    assert.deepEqual(callers.map((caller) => caller.fingerprint), [client.fingerprint, next.fingerprint]);
  });
});

Deno.test("bad files on disk are reported once, and the good ones stay in use", async () => {
  const [server, client] = await twoNodes();
  await hearing("tls.kept", async (heard) => {
    await withServer({ server, client }, async ({ port, tls }, peers) => {
      const lookAgain = async () => {
        for (let look = 0; look < 3; look++) await tls.reload();
      };
      const torn = await makeCertificate("server", { days: 1 });
      Deno.writeTextFileSync(server.files.key_file, torn.private_key);
      await until(() => heard.length > 0);
      await lookAgain();
      assert.match(heard[0]!.problem, /tls\.key" is not the key of ".*tls\.crt": replace both together/);
      Deno.writeTextFileSync(server.files.cert_file, "nonsense");
      await until(() => heard.length > 1);
      await lookAgain();
      assert.match(heard[1]!.problem, /tls\.crt" holds no certificate/);
      assert.equal(tls.generation, 1);
      assert.ok((await peers.to(at(port)).ping(asLeader, patiently)).ok);
      Deno.removeSync(server.files.pins_file);
      await until(() => heard.length > 2);
      await lookAgain();
      assert.equal(heard.length, 3);
      assert.ok(
        (await peers.to({ ...at(port), worker_id: "w2" }).ping(asLeader, patiently)).ok,
        "also for a new connection",
      );
      writeIdentity(server, server);
      writePins(server, [server, client]);
      await until(() => tls.generation === 2);
    });
  });
});

Deno.test("a certificate that was not good when it was looked at is taken when it is, though no file changes", async () => {
  const [server, client] = await twoNodes();
  await hearing("tls.kept", async (heard) => {
    await withServer({ server, client }, async ({ tls }) => {
      const soon = await makeCertificate("server", { days: 1, from: new Date(Date.now() + 3_000) });
      writePins(server, [server, client, soon]);
      await until(() => tls.generation === 2);
      writeIdentity(server, soon);
      await until(() => heard.some(({ problem }) => /is not valid before/.test(problem)));
      await until(() => tls.fingerprint === soon.fingerprint);
      assert.equal(heard.filter(({ problem }) => /is not valid before/.test(problem)).length, 1);
    });
  });
});

Deno.test("a new certificate is announced before it is used, and waits until that is done", async () => {
  const [server, client] = await twoNodes();
  const next = await makeCertificate("server", { days: 1 });
  writePins(client, [client, server, next]);
  writePins(server, [server, client, next]);
  await hearing("tls.kept", async (heard) => {
    await withServer({ server, client }, async ({ port, tls }, _peers, client_tls) => {
      const inUse = async () => (await client_tls.whoIsAt("127.0.0.1", port))?.certificate.fingerprint;
      let fails = true;
      const told: (string | null)[][] = [];
      const announced = Promise.withResolvers<void>();
      const go_on = Promise.withResolvers<void>();
      tls.announce = async () => {
        told.push([tls.fingerprint, tls.former_fingerprint]);
        if (fails) throw new Error("Postgres is away");
        announced.resolve();
        await go_on.promise;
        return 50;
      };
      writeIdentity(server, next);
      await until(() => told.length > 2); // tried again at each look
      assert.deepEqual([heard.length, await inUse()], [1, server.fingerprint]);
      assert.match(heard[0]!.problem, /waits until its fingerprint can be written .*: Postgres is away/);
      assert.deepEqual(told[0], [next.fingerprint, server.fingerprint]);
      fails = false;
      await within(ANSWER_MS, "the announcement", announced.promise);
      assert.equal(await inUse(), server.fingerprint);
      go_on.resolve();
      await until(async () => await inUse() === next.fingerprint);
      assert.deepEqual([tls.fingerprint, tls.former_fingerprint], [next.fingerprint, server.fingerprint]);
    });
  });
});

Deno.test("while a new certificate waits, pins change at once; one that nobody accepts any more waits for nothing", async () => {
  const [server, client] = await twoNodes();
  const next = await makeCertificate("server", { days: 1 });
  await withServer({ server, client }, async ({ port, tls }, peers, client_tls) => {
    const inUse = async () => (await client_tls.whoIsAt("127.0.0.1", port))?.certificate.fingerprint;
    const A_LONG_TIME_MS = 600_000;
    tls.announce = () => Promise.resolve(A_LONG_TIME_MS);
    assert.ok((await peers.to(at(port)).ping(asLeader, patiently)).ok);
    writePins(server, [server, next]); // without the client's
    writeIdentity(server, next);
    await until(() => tls.former_fingerprint === server.fingerprint);
    await until(() => tls.generation === 2);
    assert.equal((await peers.to(at(port)).ping(asLeader)).ok, false);
    assert.deepEqual([await inUse(), tls.fingerprint], [server.fingerprint, next.fingerprint]);
    writePins(server, [next, client]); // nor the certificate in use
    await until(async () => await inUse() === next.fingerprint);
  });
});

Deno.test("a connection of before serves while the row names both certificates, and is made anew when it names one", async () => {
  const [server, client] = await twoNodes();
  const next = await makeCertificate("server", { days: 1 });
  writePins(client, [client, server, next]);
  writePins(server, [server, client, next]);
  await hearing("peer.refused", async (heard) => {
    await withServer({ server, client }, async ({ port, tls }, peers) => {
      const row = at(port, server.fingerprint);
      const ping = async (address: PeerAddress) => assert.ok((await peers.to(address).ping(asLeader, patiently)).ok);
      await ping(row);
      writeIdentity(server, next);
      await until(() => tls.fingerprint === next.fingerprint);
      await ping({ ...row, tls_fingerprint: next.fingerprint, tls_former_fingerprint: server.fingerprint });
      await ping({ ...row, tls_fingerprint: next.fingerprint, tls_former_fingerprint: null });
      assert.equal(heard.length, 0);
      const gone = await peers.to(row).ping(asLeader);
      assert.match(gone.ok ? "" : gone.message, /the worker meant has certificate/);
    });
  });
});

Deno.test("no environment variable turns the checks off", async () => {
  const program = fromFileUrl(new URL("../../support/tls_unchecked.ts", import.meta.url)); // a test's own would be that of all that run beside it
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", program],
    env: { NODE_TLS_REJECT_UNAUTHORIZED: "0" },
  }).output();
  assert.equal(new TextDecoder().decode(stdout), "refused, 0 callers\n");
});

Deno.test("a certificate that ends is reported at 21, 7 and 1 days, and when it has ended, each once", async () => {
  const node = await aNode("n", { days: 40 });
  await hearing("certificate.expiring", async (heard) => {
    const tls = new Tls({ ...node.files, poll_ms: 600_000 });
    for (const days of [25, 21, 20, 15, 7, 6, 3, 1, 0.5, 0, -1]) {
      using _clock = wallClockAhead((40 - days) * DAY_MS);
      await tls.reload();
    }
    await tls.close();
    assert.deepEqual(heard.map(({ days_left }) => days_left), [20, 6, 0, -1]);
  });
});

/** The wall clock of this process, for as long as it is used. */
function wallClockAhead(by_ms: number): Disposable {
  const RealDate = Date;
  globalThis.Date = class extends RealDate {
    constructor(...given: unknown[]) {
      super(given.length > 0 ? given[0] as number : RealDate.now() + by_ms);
    }
  } as DateConstructor;
  return { [Symbol.dispose]: () => void (globalThis.Date = RealDate) };
}

function pick(fact: Facts["peer.refused"] | undefined) {
  return { theirs: fact?.theirs, ours: fact?.ours };
}

async function refusedBy(client: TestNode, port: number, how: { reason: RegExp; theirs: string }): Promise<void> {
  const tls = new Tls(client.files);
  const peers = new Peers(tls);
  await hearing("peer.refused", async (heard) => {
    const answer = await peers.to(at(port)).ping(asLeader);
    assert.equal(!answer.ok && answer.code, "UNAVAILABLE");
    await until(() => heard.length > 0);
    assert.match(heard[0]!.reason, how.reason);
    assert.deepEqual(pick(heard[0]), { theirs: how.theirs, ours: client.fingerprint });
  });
  peers.close();
  await tls.close();
}

/** A certificate with a key of its own, signed by a node's key as if that were an authority. */
async function signedBy(issuer: NodeCertificate, name: string): Promise<NodeCertificate> {
  const made = await makeCertificate(name, { days: 1, authority: issuer });
  return { ...made, certificate: made.certificate + issuer.certificate };
}
