/** `dev`, `worker`, `schema`, `certs`. */
import { type Command, Option } from "commander";
import { load } from "./load.ts";
import { countUpTo, json, reason, wholeNumber } from "./options.ts";
import type { Signals } from "../../app/output.ts";

export function addServices(program: Command, signals: Signals): void {
  program.command("dev")
    .description("start Postgres, Redis and workers for development, and sync jobs/ on every change")
    .option("--workers <n>", "how many workers", wholeNumber, 3)
    .action(async (options) => (await load("services/dev")).devCommand(options, signals));
  program.command("worker")
    .description("run one worker until it is told to stop")
    .option("--stop-with-stdin", "stop when stdin is closed, so that it does not outlive its parent")
    .action(async (options) => (await load("../app/worker_process")).workerCommand(options, signals));
  program.command("schema")
    .description("apply schema.sql to the database; again, it changes nothing")
    .addOption(json())
    .action(async (options) => (await load("services/schema")).schemaCommand(options));
  addCerts(program);
}

function addCerts(program: Command): void {
  const certs = program.command("certs").description("make, look at and rotate the certificates of nodes");
  const folder = "folder with pins.pem or ca.crt, and one for each node with its tls.crt and tls.key";
  const add = (name: string, text: string) =>
    certs.command(name, { isDefault: name === "make" }).description(text).argument("<dir>", folder).addOption(json());
  const days = () => new Option("--days <n>", "valid for so many days").argParser(countUpTo(36_500)).default(90);
  const host = () => new Option("--host <name...>", "further names in the certificate, e.g. *.workers");
  add("make", "a certificate for each node that has none (this is what `certs <dir> --node ...` does)")
    .option("--node <id...>", "node ids, one folder each below <dir>").addOption(days()).addOption(host())
    .option("--ca", "make an authority of your own in <dir>, that signs them, instead of pinning each")
    .addOption(reason())
    .action(async (dir, options) => (await load("services/certs")).makeCommand(dir, options));
  add(
    "status",
    "who has which certificate, for how many days, and what all nodes must know; exits 1 when one is no good",
  )
    .action(async (dir, options) => (await load("services/certs")).statusCommand(dir, options));
  add("rotate", "new certificates: pinned ones first wait, until every node has the new pins.pem")
    .option("--node <id...>", "of these nodes; default all").addOption(days()).addOption(host())
    .option("--ca", "a new authority, instead of new certificates of nodes")
    .addOption(reason())
    .action(async (dir, options) => (await load("services/certs")).rotateCommand(dir, options));
  add("switch", "what waits takes its place; with DATABASE_URL set, only when every worker knows it").addOption(days())
    .addOption(host()).option("--force", "without asking the workers")
    .addOption(reason())
    .action(async (dir, options) => (await load("services/certs")).switchCommand(dir, options));
  add("forget", "let a node, or certificates, be unknown from now on; with DATABASE_URL set, only what no worker shows")
    .argument("[what]", "a node's id, or the start of a fingerprint")
    .option("--former", "all certificates that a switch has replaced").option("--force", "without asking the workers")
    .addOption(reason())
    .action(async (dir, what, options) => (await load("services/certs")).forgetCommand(dir, what, options));
}
