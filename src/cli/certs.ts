/**
 * `certs`: a key pair and certificate for each node, and one bundle of pins that all share.
 *
 * Rotation without a lock-out: make the new certificate, bring the bundle, which then holds the old and the new one, to
 * every node, and only then the new certificate to its node. Running workers take both from disk without a restart.
 */
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { addPin, makeCertificate } from "../cluster/certs.ts";
import { CommandError, EXIT, printJson, printTable } from "./output.ts";

interface CertsOptions {
  node?: string[];
  days: number;
  json?: boolean;
}

export async function certsCommand(dir: string, options: CertsOptions): Promise<void> {
  const node_ids = options.node ?? [];
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
  const made = await makeAll(dir, node_ids, options.days).catch((error) => {
    if (!(error instanceof Deno.errors.PermissionDenied) && !("syscall" in error)) throw error;
    throw new CommandError(`Cannot write to ${dir}: ${error.message}; choose a folder that you may write to`);
  });
  if (options.json) return printJson(made);
  printTable(["node", "fingerprint", "days"], made.map((one) => [one.node_id, one.fingerprint, one.days]), "");
  console.log(`\nnext: bring ${dir}/pins.pem to every node, then each folder's tls.crt and tls.key to its own`);
}

async function makeAll(dir: string, node_ids: string[], days: number) {
  const bundle = `${dir}/pins.pem`;
  let pins = readOrEmpty(bundle);
  const made = [];
  for (const node_id of node_ids) {
    const { certificate, private_key, fingerprint } = await makeCertificate(node_id, { days });
    mkdirSync(`${dir}/${node_id}`, { recursive: true, mode: 0o700 });
    writeWhole(`${dir}/${node_id}/tls.key`, private_key, 0o600);
    writeWhole(`${dir}/${node_id}/tls.crt`, certificate, 0o644);
    pins = addPin(pins, certificate);
    made.push({ node_id, fingerprint, days });
  }
  writeWhole(bundle, pins, 0o644);
  for (const folder of nodeFolders(dir)) writeWhole(`${dir}/${folder}/pins.pem`, pins, 0o644);
  return made;
}

/** Also those of nodes that were made earlier: their peers are now one more. */
function nodeFolders(dir: string): string[] {
  const folders = readdirSync(dir, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return folders.map((entry) => entry.name).filter((name) => existsSync(`${dir}/${name}/tls.crt`));
}

function readOrEmpty(file: string): string {
  try {
    return Deno.readTextFileSync(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

/** Readers see the old file or the new one, never half of it. */
function writeWhole(file: string, text: string, mode: number): void {
  Deno.writeTextFileSync(`${file}.new`, text, { mode });
  Deno.renameSync(`${file}.new`, file);
}
