/**
 * Nodes with certificates, and a worker's server with handlers that answer at once. Run as a program with a node's
 * folder as its argument it serves until it is killed, and prints its port.
 */
import type { TlsFiles } from "../../src/platform/config.ts";
import { rest } from "../../src/platform/timers.ts";
import {
  type CertificateAuthority,
  makeCertificate,
  type NodeCertificate,
  type PinnedFiles,
} from "../../src/rpc/certificates.ts";
import { Peers } from "../../src/rpc/peers.ts";
import type { Caller, WorkerHandlers, WorkerStatus } from "../../src/rpc/messages.ts";
import { type RunningServer, startServer } from "../../src/rpc/server.ts";
import { Tls } from "../../src/rpc/tls.ts";

export interface TestNode extends NodeCertificate {
  files: PinnedFiles;
}

/** A node's files in a folder of its own, pinning itself and what else is given. */
export async function aNode(
  name: string,
  options: { pins?: NodeCertificate[]; days?: number; from?: Date } = {},
): Promise<TestNode> {
  const dir = Deno.makeTempDirSync({ prefix: `dandori-${name}-` });
  addEventListener("unload", () => Deno.removeSync(dir, { recursive: true }));
  const made = await makeCertificate(name, { days: options.days ?? 1, from: options.from });
  const node = { ...made, files: filesIn(dir) };
  writeIdentity(node, made);
  writePins(node, [made, ...options.pins ?? []]);
  return node;
}

/** A node that lets in whom an authority vouches for, as it vouches for it. */
export async function aCertifiedNode(
  authority: CertificateAuthority,
  name: string,
  options: { days?: number; from?: Date } = {},
): Promise<NodeCertificate & { files: TlsFiles & { ca_file: string } }> {
  const { files } = await aNode(name);
  const made = await makeCertificate(name, { days: 1, ...options, authority });
  const ca_file = files.pins_file.replace("pins.pem", "ca.crt");
  Deno.writeTextFileSync(ca_file, authority.certificate);
  const node = { ...made, files: { cert_file: files.cert_file, key_file: files.key_file, ca_file, node_id: name } };
  writeIdentity(node, made);
  return node;
}

function filesIn(dir: string): PinnedFiles {
  return { cert_file: `${dir}/tls.crt`, key_file: `${dir}/tls.key`, pins_file: `${dir}/pins.pem` };
}

export function writeIdentity(node: { files: TlsFiles }, identity: NodeCertificate): void {
  Deno.writeTextFileSync(node.files.key_file, identity.private_key);
  Deno.writeTextFileSync(node.files.cert_file, identity.certificate);
}

export function writePins(node: TestNode, pins: NodeCertificate[]): void {
  Deno.writeTextFileSync(node.files.pins_file, pins.map((pin) => pin.certificate).join(""));
}

/** Two nodes that pin each other. */
export async function twoNodes(): Promise<[TestNode, TestNode]> {
  const [one, other] = await Promise.all([aNode("one"), aNode("other")]);
  writePins(one, [one, other]);
  writePins(other, [one, other]);
  return [one, other];
}

export interface Serving extends RunningServer {
  tls: Tls;
  /** Who called, in order. */
  callers: Caller[];
}

/** A server and a client, each with its node's files, for the length of `act`. */
export async function withServer(
  nodes: Record<"server" | "client", { files: TlsFiles }>,
  act: (serving: Serving, peers: Peers, client_tls: Tls) => Promise<void>,
  handlers: Partial<WorkerHandlers> = {},
): Promise<void> {
  const tls = new Tls({ ...nodes.server.files, poll_ms: 20 });
  const client_tls = new Tls({ ...nodes.client.files, poll_ms: 20 });
  const callers: Caller[] = [];
  const server = await startServer({
    host: "127.0.0.1",
    port: 0,
    transport: tls,
    handlers: handlersThat(callers, handlers),
  });
  const peers = new Peers(client_tls);
  try {
    await act({ ...server, tls, callers }, peers, client_tls);
  } finally {
    peers.close();
    await server.close();
    await Promise.all([tls.close(), client_tls.close()]);
  }
}

export function at(port: number, tls_fingerprint?: string) {
  return { worker_id: "w1-00000000", grpc_host: "127.0.0.1", grpc_port: port, tls_fingerprint };
}

/** For calls that must succeed, also on a busy machine. */
export const patiently = { deadline_ms: 20_000 };

export const asLeader = { caller_role: "leader" as const, leader_epoch: 7 };

export const aStatus: WorkerStatus = {
  worker_id: "w1-00000000",
  node_id: "one",
  role: "worker",
  detached: false,
  draining: false,
  slots: 4,
  running: [{ job_run_id: 812, attempt: 2 }],
  released: 1,
  observed_leader_epoch: 7,
  code_times: [{ digest: "d1", body_us: 500 }],
  lack: "",
  late: false,
};

export function handlersThat(callers: Caller[], own: Partial<WorkerHandlers>): WorkerHandlers {
  return {
    ping(request, caller) {
      callers.push(caller);
      return {
        worker_id: "w1-00000000",
        node_id: "one",
        observed_leader_epoch: request.leader_epoch,
        now_unix_ms: Date.now(),
      };
    },
    getStatus: () => ({ ...aStatus, load: 1, current_job_run_id: 812, last_heartbeat_unix_ms: 1_700_000_000_000 }),
    startJob: () => ({ result: "ACCEPTED", message: "", observed_leader_epoch: 7 }),
    startJobs: (request) => ({
      results: request.orders.map((order) => ({ ...order, result: "ACCEPTED", message: "" })),
      observed_leader_epoch: request.leader_epoch,
    }),
    cancelJob: () => ({ result: "NOT_FOUND", message: "never heard of it", observed_leader_epoch: 7 }),
    drain: (request) => ({ draining: request.enable, result: "ACCEPTED", observed_leader_epoch: 7 }),
    confirmContinuation: () => ({ decision: "UNAVAILABLE", message: "no database", lease_ms: 0, canceled: false }),
    checkNode: () => ({
      worker_id: "w1-00000000",
      node_id: "one",
      load_percent: 42,
      cores: 2,
      disk_free_mb: 5_000,
      memory_free_mb: 900,
      bodies: 1,
      scripts: [{ name: "license", ok: true, message: "3 free", ms: 12 }],
      lack: "",
    }),
    async *watch(_request, _caller, stop) {
      while (!stop.aborted) {
        yield aStatus;
        await rest(500, stop);
      }
    },
    ...own,
  };
}

if (import.meta.main) {
  const tls = new Tls(filesIn(Deno.args[0]!));
  const server = await startServer({ host: "127.0.0.1", port: 0, transport: tls, handlers: handlersThat([], {}) });
  console.log(server.port);
}
