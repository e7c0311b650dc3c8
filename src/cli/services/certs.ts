/**
 * `certs`: the folder from which nodes get their certificates (ops/cert_folder.ts). Each command ends by saying what to do
 * next, so that a rotation cannot be done in an order that locks a node out.
 */
import { environment } from "../../platform/config.ts";
import { messageOf } from "../../platform/text.ts";
import { recordAudit } from "../../access/audit.ts";
import { by, NO_REASON } from "../operator.ts";
import { CertFolder, CertFolderError, type Made } from "../../ops/cert_folder.ts";
import { daysLeft } from "../../rpc/tls.ts";
import { connectDb } from "../../postgres/connection.ts";
import { listWorkers, type WorkerListing } from "../../nodes/workers.ts";
import { CommandError, EXIT, printJson, say, warn } from "../../app/output.ts";
import { printTable } from "../table.ts";

interface Common {
  json?: boolean;
  /** For the audit. */
  reason?: string;
}
export interface MakeOptions extends Common {
  node?: string[];
  host?: string[];
  days: number;
  ca?: boolean;
}

export async function makeCommand(dir: string, options: MakeOptions): Promise<void> {
  const node_ids = [...new Set(options.node)];
  if (node_ids.length === 0) {
    throw new CommandError(
      `Cannot make certificates: name the nodes, e.g. deno task certs ${dir} --node web-1 --node web-2`,
      EXIT.usage,
    );
  }
  const bad = node_ids.find((node_id) => !/^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/.test(node_id));
  if (bad) {
    throw new CommandError(`Cannot use "${bad}" as a node's id: letters, digits, _ . - only, at most 63`, EXIT.usage);
  }
  const folder = new CertFolder(dir);
  const made = await writing(folder, async () => {
    if (options.ca) await folder.ensureAuthority();
    return await folder.make(node_ids, asked(options));
  });
  await audit("certs.make", made.filter((one) => one.made), options);
  const kept = made.filter((one) => !one.made).map((one) => one.node_id);
  const next = [
    `bring ${folder.trust_file} to every node, then each folder's tls.crt and tls.key to its own`,
    ...(folder.hasAuthority
      ? ["on every node: SCHEDULER_TLS_CA_FILE=/etc/scheduler/tls/ca.crt, or wherever it lies"]
      : []),
    ...(kept.length > 0 ? [`kept, to renew: deno task certs rotate ${dir} --node ${kept.join(" ")}`] : []),
  ];
  tell(options, { nodes: made, next });
}

export async function rotateCommand(dir: string, options: MakeOptions): Promise<void> {
  const folder = existing(dir);
  if (options.ca) return await rotateAuthority(folder, options);
  const known = folder.nodes().map(({ node_id }) => node_id);
  const node_ids = options.node ?? known;
  const unknown = node_ids.find((node_id) => !known.includes(node_id));
  if (unknown) {
    throw new CommandError(
      `Cannot rotate ${unknown}: ${dir} has no such node, but ${known.join(", ")}; ` +
        `for a new one: deno task certs ${dir} --node ${unknown}`,
    );
  }
  const waiting = folder.nodes().find((one) => one.next && node_ids.includes(one.node_id));
  if (waiting) {
    throw new CommandError(
      `Cannot rotate ${waiting.node_id}: its next certificate waits already, since its pin may be on some nodes only; ` +
        `go on with it: deno task certs switch ${dir}`,
    );
  }
  const made = await writing(folder, () => folder.rotate(node_ids, asked(options)));
  await audit("certs.rotate", made, options);
  const next = folder.hasAuthority
    ? ["bring each folder's tls.crt and tls.key to its node; peers accept them as they are"]
    : [
      `1. bring ${folder.trust_file} to every node; it holds the old and the new certificates`,
      "2. when all have taken it, some 5 s later (`deno task doctor` tells):",
      `   deno task certs switch ${dir}, and bring each folder's tls.crt and tls.key to its node`,
    ];
  tell(options, { nodes: made, next });
}

async function rotateAuthority(folder: CertFolder, options: MakeOptions): Promise<void> {
  const { dir } = folder;
  if (!folder.hasAuthority) {
    throw new CommandError(`Cannot rotate the authority of ${dir}: its certificates are pinned, and it has none`);
  }
  if (folder.nextAuthority()) {
    throw new CommandError(
      `Cannot rotate the authority of ${dir}: the next one waits already; go on with it: deno task certs switch ${dir}`,
    );
  }
  const made = await writing(folder, () => folder.rotateAuthority());
  const nodes = [{ node_id: "(authority)", fingerprint: made.fingerprint, not_after: made.not_after, made: true }];
  await audit("certs.rotate", nodes, options);
  tell(options, {
    nodes,
    next: [
      `1. bring ${folder.trust_file} to every node; it holds the old and the new authority`,
      `2. when all have taken it: deno task certs switch ${dir}, which makes every node's certificate anew`,
    ],
  });
}

export async function switchCommand(dir: string, options: MakeOptions & { force?: boolean }): Promise<void> {
  const folder = existing(dir);
  if (!folder.nextAuthority() && !folder.nodes().some((one) => one.next)) {
    throw new CommandError(`Cannot switch ${dir}: nothing waits; make it first: deno task certs rotate ${dir}`);
  }
  const checked = options.force ? "not asked, since --force was given" : await checkWorkers(folder);
  const switched = await writing(folder, () => folder.switch(asked(options)));
  await audit("certs.switch", switched, options);
  tell(options, {
    nodes: switched,
    next: [
      `whether every worker has the new ${folder.hasAuthority ? "authority" : "pins"}: ${checked}`,
      "bring each folder's tls.crt and tls.key to its node; workers use them within a minute, without a restart",
      `the old ones stay known; a day later, or at once when a key has leaked: deno task certs forget ${dir} --former`,
    ],
  });
}

/** Every living worker must know the certificates that it is about to see. */
async function checkWorkers(folder: CertFolder): Promise<string> {
  const workers = await livingWorkers();
  if (!workers) return NOT_ASKED;
  const without = workers.filter((one) => one.tls_trust_digest !== folder.trust_digest);
  if (without.length === 0) return `yes, all ${workers.length}`;
  throw new CommandError(
    `Cannot switch ${folder.dir}: ${without.length} of ${workers.length} workers do not let in just those of ` +
      `${folder.trust_file}: ${named(without)}; they would lock out whoever shows a new certificate: ` +
      "bring the file there, wait some 10 s and try again, or use --force",
  );
}

const NOT_ASKED = "not asked, since DATABASE_URL is not set";

/** Undefined: it is not said where to ask. A running `dev` has certificates of its own, and is not asked. */
async function livingWorkers(): Promise<WorkerListing[] | undefined> {
  const database_url = environment().DATABASE_URL;
  if (!database_url) return undefined;
  const sql = connectDb(database_url, { name: "certs", max: 1 });
  return await listWorkers(sql).finally(() => sql.end({ timeout: 1 }));
}

/**
 * After the files are written, since a rotation must not wait for a database that is away: who cannot be noted is told of. Without a
 * DATABASE_URL there is no audit.
 */
async function audit(
  action: `certs.${string}`,
  certificates: { node_id: string; fingerprint: string; not_after: Date }[],
  { reason = NO_REASON }: Common,
): Promise<void> {
  const database_url = environment().DATABASE_URL;
  if (!database_url || certificates.length === 0) return;
  const sql = connectDb(database_url, { name: "certs", max: 1 });
  const actions = certificates.map(({ node_id, fingerprint, not_after }) => ({
    ...by({ reason }),
    action,
    target_type: "certificate",
    target_id: node_id,
    after: { fingerprint, not_after },
  }));
  try {
    await sql.begin(async (tx) => {
      for (const act of actions) await recordAudit(tx, act);
    });
  } catch (error) {
    warn([`this is not in the audit: ${messageOf(error)}`]);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

function named(workers: WorkerListing[]): string {
  return workers.map((one) => `${one.worker_id} on ${one.node_id}`).join(", ");
}

export interface ForgetOptions extends Common {
  former?: boolean;
  force?: boolean;
}

export async function forgetCommand(dir: string, what: string | undefined, options: ForgetOptions): Promise<void> {
  const folder = existing(dir);
  const node_id = folder.nodes().find((one) => one.node_id === what)?.node_id;
  const gone = options.former
    ? folder.former()
    : node_id || /^[0-9A-Fa-f:]{5,}$/.test(what ?? "")
    ? folder.known(what!)
    : [];
  if (gone.length === 0 && node_id === undefined && !options.former) {
    throw new CommandError(
      what === undefined
        ? `Cannot forget nothing: name a node, a fingerprint as \`certs status ${dir}\` shows it, or say --former`
        : `Cannot forget ${what}: ${dir} has neither a node of that name nor a certificate whose fingerprint begins so`,
      EXIT.usage,
    );
  }
  const workers = options.force ? undefined : await livingWorkers();
  const used = workers?.filter((one) => gone.some(({ fingerprint }) => showsOrShowed(one, fingerprint))) ?? [];
  if (used.length > 0) {
    throw new CommandError(
      `Cannot forget what workers still show: ${
        named(used)
      }; bring them their new tls.crt and tls.key, wait two minutes ` +
        "and try again, or shut them out with --force",
    );
  }
  await writing(folder, () => Promise.resolve(folder.forget(gone, node_id)));
  await audit("certs.forget", gone.map((one) => ({ node_id: node_id ?? one.subject, ...one })), options);
  const next = [
    `bring ${folder.trust_file} to every node; connections of what is forgotten are closed at once`,
    ...(node_id && folder.hasAuthority
      ? [
        `${node_id} is let in until its certificate ends, since the authority has signed it; to shut it out now, replace`,
        `that: deno task certs rotate ${dir} --ca, then switch, then forget the old authority`,
      ]
      : []),
  ];
  if (options.json) return printJson({ forgotten: gone.map((one) => one.fingerprint), next });
  for (const one of gone) say(`forgotten: ${one.fingerprint} ${one.subject}`);
  if (gone.length === 0) say("no certificate had to be forgotten");
  say(`\nnext:\n${next.map((line) => `  ${line}`).join("\n")}`);
}

function showsOrShowed(worker: WorkerListing, fingerprint: string): boolean {
  return worker.tls_fingerprint === fingerprint || worker.tls_former_fingerprint === fingerprint;
}

export function statusCommand(dir: string, options: Common): void {
  const folder = existing(dir);
  const nodes = folder.nodes().map(({ node_id, certificate, next, problem }) => ({
    node_id,
    fingerprint: certificate?.fingerprint ?? null,
    days_left: certificate ? daysLeft(certificate.not_after) : null,
    next_fingerprint: next?.fingerprint ?? null,
    problem: problem ?? null,
  }));
  const trusted = folder.trusted().map((one) => ({
    fingerprint: one.fingerprint,
    subject: one.subject,
    days_left: daysLeft(one.not_after),
    use: useOf(folder, one.fingerprint),
  }));
  if (options.json) {
    printJson({ kind: folder.hasAuthority ? "authority" : "pins", trust_digest: folder.trust_digest, nodes, trusted });
  } else {
    printTable(
      ["node", "certificate", "days left", "next", "problem"],
      nodes.map((
        one,
      ) => [one.node_id, short(one.fingerprint), one.days_left, short(one.next_fingerprint), one.problem]),
      `no node has a certificate in ${dir}`,
    );
    say(`\n${folder.trust_file}, set ${folder.trust_digest}:`);
    printTable(
      ["certificate", "of", "days left", "use"],
      trusted.map((one) => [one.fingerprint, one.subject, one.days_left, one.use]),
      "empty",
    );
  }
  const broken = nodes.filter((one) => one.problem);
  if (broken.length === 0) return;
  const message = `${broken.map((one) => `${one.node_id}: ${one.problem}`).join("; ")}; ` +
    `make new ones: deno task certs rotate ${dir} --node ${broken.map((one) => one.node_id).join(" ")}`;
  throw new CommandError(options.json ? "" : message);
}

function useOf(folder: CertFolder, fingerprint: string): string {
  if (folder.authority()?.fingerprint === fingerprint) return "signs";
  if (folder.nextAuthority()?.fingerprint === fingerprint) return "next authority, waits for switch";
  for (const { node_id, certificate, next } of folder.nodes()) {
    if (certificate?.fingerprint === fingerprint) return `shown by ${node_id}`;
    if (next?.fingerprint === fingerprint) return `next of ${node_id}, waits for switch`;
  }
  return "former";
}

function existing(dir: string): CertFolder {
  const folder = new CertFolder(dir);
  if (refusing(() => folder.trusted()).length > 0) return folder;
  throw new CommandError(
    `Cannot use ${dir}: there are neither pins.pem nor ca.crt in it; make certificates: deno task certs ${dir} --node web-1`,
  );
}

function asked({ days, host: hosts = [] }: MakeOptions): { days: number; hosts: string[] } {
  const bad = hosts.find((one) =>
    !/^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$|^[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*$/.test(one)
  );
  if (bad === undefined) return { days, hosts };
  throw new CommandError(
    `Cannot use --host "${bad}": give a host's name, such as web-1.internal or *.workers, or an address`,
    EXIT.usage,
  );
}

function tell(options: Common, said: { nodes: Made[]; next: string[] }): void {
  const nodes = said.nodes.map((one) => ({
    node_id: one.node_id,
    fingerprint: one.fingerprint,
    days_left: daysLeft(one.not_after),
    made: one.made,
  }));
  if (options.json) return printJson({ nodes, next: said.next });
  printTable(
    ["node", "fingerprint", "days left", "made"],
    nodes.map((one) => [one.node_id, one.fingerprint, one.days_left, one.made ? "now" : "before, kept"]),
    "",
  );
  say(`\nnext:\n${said.next.map((line) => `  ${line}`).join("\n")}`);
}

function short(fingerprint: string | null): string | null {
  return fingerprint && `${fingerprint.slice(0, 23)}...`;
}

async function writing<T>(folder: CertFolder, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw explained(error, folder.dir);
  }
}

function refusing<T>(act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw explained(error, "it");
  }
}

function explained(error: unknown, dir: string): unknown {
  if (error instanceof CertFolderError) return new CommandError(error.message);
  const of_files = error instanceof Deno.errors.PermissionDenied || (error instanceof Error && "syscall" in error);
  return of_files
    ? new CommandError(`Cannot write to ${dir}: ${(error as Error).message}; choose a folder that you may write to`)
    : error;
}
