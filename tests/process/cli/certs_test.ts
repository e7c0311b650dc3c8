/** The folder of certificates: no step of a rotation, done in the order that it says, locks a node out. */
import assert from "node:assert/strict";
import { cpSync, statSync } from "node:fs";
import type { TlsFiles } from "../../../src/platform/config.ts";
import { readTlsFiles } from "../../../src/rpc/tls_files.ts";
import { type Meant, whyNotTrusted } from "../../../src/rpc/trust.ts";
import { CertFolder } from "../../../src/ops/cert_folder.ts";
import { cliWith, type Said } from "../../support/cli.ts";
import { aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { stored } from "../../../src/locale/message.ts";

const NODES = ["web-1", "web-2", "web-3"];
const ASKED = { days: 90, hosts: [] };

Deno.test("pinned certificates: at each step of a rotation, nodes before and after it let each other in", async () => {
  await withFolder(async (folder, copy) => {
    await folder.make(NODES, ASKED);
    const stages = [copy("made")];
    await folder.rotate(NODES, ASKED);
    stages.push(copy("rotated"));
    assert.deepEqual(refusals(stages[1]!, stages[1]!), []);
    await folder.switch(ASKED);
    stages.push(copy("switched"));
    folder.forget(folder.former());
    stages.push(copy("forgotten"));
    for (const [place, stage] of stages.slice(1).entries()) assert.deepEqual(refusals(stages[place]!, stage), []);
    assert.equal(
      refusals(stages[0]!, stages[2]!).length,
      9,
      "without the step between, all that are new are locked out",
    );
    assert.equal(folder.trusted().length, NODES.length);
    assert.equal(new Set(stages.map((dir) => certificateIn(`${dir}/web-1`))).size, 2);
  });
});

Deno.test("an authority: nodes' certificates are renewed in one step, and the authority itself in three", async () => {
  await withFolder(async (folder, copy) => {
    await folder.ensureAuthority();
    await folder.make(NODES, ASKED);
    const stages = [copy("made")];
    await folder.rotate(NODES, ASKED);
    stages.push(copy("renewed"));
    await folder.rotateAuthority();
    stages.push(copy("next authority"));
    await folder.make(["web-4"], ASKED); // in the middle of it, by the one that all know
    stages.push(copy("a node more"));
    await folder.switch(ASKED);
    stages.push(copy("switched"));
    folder.forget(folder.former());
    stages.push(copy("forgotten"));
    for (const [place, stage] of stages.slice(1).entries()) assert.deepEqual(refusals(stages[place]!, stage), []);
    assert.ok(refusals(stages[1]!, stages[4]!).length > 0, "without the steps between, nodes are locked out");
    assert.equal(folder.trusted().length, 1);
    assert.deepEqual(folder.nodes().filter((one) => one.problem), []);
    assert.ok(
      !stages.some((dir) => NODES.some((node_id) => exists(`${dir}/${node_id}/ca.key`))),
      "its key leaves no folder",
    );
  });
});

Deno.test("a switch that was cut short goes on where it stopped", async () => {
  await withFolder(async (folder) => {
    await folder.make(NODES, ASKED);
    await folder.rotate(["web-2"], ASKED);
    Deno.renameSync(`${folder.dir}/web-2/next.key`, `${folder.dir}/web-2/tls.key`);
    assert.match(folder.nodes()[1]?.problem ?? "", /tls\.key is not the key of tls\.crt/);
    assert.equal((await folder.switch(ASKED)).length, 1);
    assert.deepEqual(folder.nodes().map((one) => one.problem ?? one.next), [undefined, undefined, undefined]);
  });
});

Deno.test("keys are for their owner alone, certificates for all, whatever the umask", async () => {
  for (const umask of [0o000, 0o077]) {
    const before = Deno.umask(umask);
    try {
      await withFolder(async (folder) => {
        await folder.ensureAuthority();
        await folder.make(["web-1"], ASKED);
        await folder.rotateAuthority();
        const modes = ["ca.key", "ca.crt", "next-ca.key", "web-1", "web-1/tls.key", "web-1/tls.crt", "web-1/ca.crt"];
        assert.deepEqual(
          modes.map((name) => (statSync(`${folder.dir}/${name}`).mode & 0o777).toString(8)),
          ["600", "644", "600", "700", "600", "644", "644"],
        );
      });
    } finally {
      Deno.umask(before);
    }
  }
});

Deno.test("certificates that are made, rotated, switched and forgotten are audited where a database is given, and done where it is away", async () => {
  await withStores(async ({ sql, database_url }) => {
    await withFolder(async (folder) => {
      const { dir } = folder;
      const cli = cliWith({ SCHEDULER_STATE_DIR: "/nonexistent", DATABASE_URL: database_url });
      says(await cli("certs", dir, "--node", "web-1", "web-2", "--reason", "new rack"));
      says(await cli("certs", dir, "--node", "web-1")); // kept: nothing was made
      says(await cli("certs", "rotate", dir, "--node", "web-2"));
      says(await cli("certs", "switch", dir));
      says(await cli("certs", "forget", dir, "web-2"));
      const acts = await sql<{ what: string; actor: string; reason: string; after: { fingerprint: string } }[]>`
        select action || ' ' || target_id as what, actor, reason, after_json as after from admin_action_log
         where target_type = 'certificate' order by id`;
      const whats = acts.map(({ what }) => what);
      assert.deepEqual(whats.slice(0, 4), [
        "certs.make web-1",
        "certs.make web-2",
        "certs.rotate web-2",
        "certs.switch web-2",
      ]);
      assert(whats.length > 4 && whats.slice(4).every((what) => what === "certs.forget web-2"), whats.join());
      assert.match(acts[0]?.actor ?? "", /^cli:/);
      assert.deepEqual(acts.slice(0, 3).map(({ reason }) => reason), [
        "new rack",
        "new rack",
        stored("reason.command_line"),
      ]);
      assert.equal(acts[3]?.after.fingerprint, acts[2]?.after.fingerprint);
      const away = cliWith({ SCHEDULER_STATE_DIR: "/nonexistent", DATABASE_URL: "postgres://x@127.0.0.1:1/x" });
      const made = await away("certs", dir, "--node", "web-3");
      assert.match(made.err, /^warning: this is not in the audit: /);
      assert.deepEqual([made.code, folder.nodes().some(({ node_id }) => node_id === "web-3")], [0, true]);
    });
  });
});

Deno.test("the command line leads through a rotation, and refuses what would lock a node out", async () => {
  await withStores(async ({ sql, database_url }) => {
    await withFolder(async (folder) => {
      const { dir } = folder;
      const cli = cliWith({ SCHEDULER_STATE_DIR: "/nonexistent", DATABASE_URL: "" });
      const asking = cliWith({ SCHEDULER_STATE_DIR: "/nonexistent", DATABASE_URL: database_url });
      assert.match(
        says(await cli("certs", dir, "--node", "web-1", "web-2")),
        /next:\n.*bring .*pins\.pem to every node/,
      );
      const again = says(await cli("certs", dir, "--node", "web-1", "web-3"));
      assert.match(again, /^web-1 .* before, kept$/m);
      assert.match(again, /kept, to renew: deno task certs rotate .* --node web-1/);
      await aWorker(sql, { worker_id: "w1", node_id: "web-1", tls_trust_digest: folder.trust_digest });

      assert.match(says(await cli("certs", "switch", dir), 1), /nothing waits; make it first: deno task certs rotate/);
      assert.match(
        says(await cli("certs", "rotate", dir, "--node", "web-9"), 1),
        /has no such node, but web-1, web-2, web-3/,
      );
      assert.match(
        says(await cli("certs", "rotate", dir)),
        /1\. bring .*pins\.pem to every node; it holds the old and the new/,
      );
      assert.match(says(await cli("certs", "rotate", dir), 1), /its next certificate waits already/);
      assert.match(
        says(await asking("certs", "switch", dir), 1),
        /1 of 1 workers do not let in .*: w1 on web-1; they would lock/,
      );
      await sql`update worker set tls_trust_digest = ${folder.trust_digest}`;
      assert.match(says(await asking("certs", "switch", dir)), /has the new pins: yes, all 1/);

      const status = JSON.parse(says(await cli("certs", "status", dir, "--json")));
      assert.equal(status.kind, "pins");
      assert.deepEqual(status.trusted.map((one: { use: string }) => one.use.replace(/ .*/, "")), [
        ...Array(3).fill("former"),
        ...Array(3).fill("shown"),
      ]);
      assert.deepEqual(status.nodes.map((one: { days_left: number; problem: null }) => [one.days_left, one.problem]), [
        ...Array(3).fill([90, null]),
      ]);
      await sql`update worker set tls_former_fingerprint = ${status.trusted[0].fingerprint}`;
      assert.match(says(await asking("certs", "forget", dir, "--former"), 1), /what workers still show: w1 on web-1/);
      assert.match(says(await cli("certs", "forget", dir, "--former")), /^forgotten: (.*\n){3}\nnext:/);
    });
  });
});

Deno.test("the command line says what is wrong with a folder, and with what is asked of it", async () => {
  await withFolder(async (folder) => {
    const { dir } = folder;
    const cli = cliWith({ SCHEDULER_STATE_DIR: "/nonexistent", DATABASE_URL: "" });
    await folder.make(NODES, ASKED);
    const [first] = folder.trusted();
    assert.match(
      says(await cli("certs", "forget", dir, first!.fingerprint), 1),
      /Cannot forget the certificate that web-1 shows/,
    );
    assert.match(says(await cli("certs", "forget", dir), 2), /name a node, a fingerprint .* or say --former/);
    assert.match(says(await cli("certs", "forget", dir, "web-9"), 2), /neither a node of that name nor a certificate/);
    assert.match(says(await cli("certs", "forget", dir, "web-3")), /CN=web-3\n\nnext:\n.*closed at once/);
    assert.equal(folder.trusted().length, 2);
    Deno.chmodSync(`${dir}/web-2/tls.key`, 0o640);
    assert.match(says(await cli("certs", "status", dir), 1), /web-2: tls\.key is open to others .*mode 640, want 600/);
    Deno.chmodSync(`${dir}/web-2/tls.key`, 0o600);
    Deno.writeTextFileSync(`${dir}/web-2/tls.key`, "nonsense");
    const broken = await cli("certs", "status", dir);
    assert.match(says(broken, 1), /web-2: tls\.key is not the key of tls\.crt; make new ones: deno task certs rotate/);
    const as_json = await cli("certs", "status", dir, "--json");
    assert.deepEqual([as_json.code, JSON.parse(as_json.out).nodes.length], [1, 2], "one JSON value, also then");
    assert.match(
      says(await cli("certs", "status", "/nonexistent"), 1),
      /neither pins\.pem nor ca\.crt .*make certificates/,
    );
    assert.match(
      says(await cli("certs", dir, "--node", "web-4", "--ca"), 1),
      /it holds pinned certificates; use another folder/,
    );
    assert.match(says(await cli("certs", "rotate", dir, "--ca"), 1), /its certificates are pinned, and it has none/);
  });
});

function says({ code, out, err }: Said, expected = 0): string {
  assert.equal(code, expected, out + err);
  assert(!/\n +at /.test(err), `no stack: ${err}`);
  return out + err;
}

for (const authority of [false, true]) {
  Deno.test(`a second rotation ${authority ? "of the authority " : ""}that was cut short leaves nothing half to switch to`, async () => {
    await withFolder(async (folder) => {
      if (authority) await folder.ensureAuthority();
      await folder.make(["n1"], ASKED);
      const rotate = () => authority ? folder.rotateAuthority() : folder.rotate(["n1"], ASKED);
      await rotate();
      const blocked = `${folder.dir}/${authority ? "ca.crt" : "n1/next.crt"}.new`;
      Deno.mkdirSync(`${blocked}/in-the-way`, { recursive: true });
      await assert.rejects(rotate());
      Deno.removeSync(blocked, { recursive: true });
      await folder.switch(ASKED);
      assert.doesNotMatch(folder.nodes()[0]?.problem ?? "", /tls\.key/); // that the pins go to each node is left to be done
      await rotate();
      await folder.switch(ASKED);
      assert.deepEqual(folder.nodes().map(({ node_id, problem }) => [node_id, problem]), [["n1", undefined]]);
    });
  });

  Deno.test(`what was cut short while ${authority ? "an authority" : "a certificate"} was made is made whole by the next try`, async () => {
    await withFolder(async (folder) => {
      if (authority) await folder.ensureAuthority();
      const trust_file = authority ? `${folder.dir}/ca.crt` : `${folder.dir}/pins.pem`;
      const blocked = `${trust_file}.new/in-the-way`; // as if the process had been killed in that moment
      Deno.mkdirSync(blocked, { recursive: true });
      await assert.rejects(authority ? folder.rotateAuthority() : folder.make(["n1"], ASKED));
      Deno.removeSync(`${trust_file}.new`, { recursive: true });
      if (authority) await folder.switch(ASKED);
      await folder.make(["n1"], ASKED);
      assert.deepEqual(folder.nodes().map(({ node_id, problem }) => [node_id, problem]), [["n1", undefined]]);
    });
  });
}

async function withFolder(act: (folder: CertFolder, copy: (name: string) => string) => Promise<void>): Promise<void> {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-certs-" });
  const copy = (name: string) => {
    cpSync(`${dir}/now`, `${dir}/${name}`, { recursive: true });
    return `${dir}/${name}`;
  };
  try {
    await act(new CertFolder(`${dir}/now`), copy);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
}

/** Of each node by each other one, in both directions, were these two states of the folder in use side by side. */
function refusals(one_dir: string, other_dir: string): string[] {
  const found: string[] = [];
  for (const [mine, theirs] of [[one_dir, other_dir], [other_dir, one_dir]] as const) {
    for (const me of nodesIn(mine)) {
      for (const peer of nodesIn(theirs)) {
        const { trust } = readTlsFiles(filesOf(mine, me));
        const shown = { certificate: readTlsFiles(filesOf(theirs, peer)).certificate, issuers: [] };
        const meant: Meant = { fingerprints: [], node_id: peer };
        const refusal = whyNotTrusted(trust, shown, meant);
        if (refusal) found.push(`${me} of ${mine} refuses ${peer} of ${theirs}: ${refusal}`);
      }
    }
  }
  return found;
}

function nodesIn(dir: string): string[] {
  return [...Deno.readDirSync(dir)].filter((entry) => entry.isDirectory).map((entry) => entry.name);
}

function filesOf(dir: string, node_id: string): TlsFiles {
  const home = `${dir}/${node_id}`;
  const trust = exists(`${home}/ca.crt`) ? { ca_file: `${home}/ca.crt` } : { pins_file: `${home}/pins.pem` };
  return { cert_file: `${home}/tls.crt`, key_file: `${home}/tls.key`, node_id, ...trust };
}

function certificateIn(home: string): string {
  return Deno.readTextFileSync(`${home}/tls.crt`);
}

function exists(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false }) !== undefined;
}
