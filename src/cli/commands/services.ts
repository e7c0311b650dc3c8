/** `dev`, `worker`, `schema`, `secret`, `certs`. */
import { type Command, Option } from "commander";
import { load } from "./load.ts";
import { countUpTo, json, reason, wholeNumber } from "./options.ts";
import type { Signals } from "../../app/output.ts";

export function addServices(program: Command, signals: Signals): void {
  program.command("dev")
    .description("start Postgres, Redis and workers for development, and sync jobs/ on every change")
    .option("--workers <n>", "number of workers", wholeNumber, 3)
    .action(async (options) => (await load("services/dev")).devCommand(options, signals));
  program.command("worker")
    .description("run one worker until a stop signal")
    .option("--stop-with-stdin", "stop when stdin is closed, so that the worker does not outlive its parent")
    .action(async (options) => (await load("../app/worker_process")).workerCommand(options, signals));
  program.command("schema")
    .description("create the tables, or apply the migrations that the database lacks")
    .addOption(json())
    .action(async (options) => (await load("services/schema")).schemaCommand(options));
  program.command("secret")
    .description("print a new key for SCHEDULER_CALLBACK_SECRET, with which callback addresses are made")
    .action(async () => (await load("services/secret")).secretCommand());
  addCerts(program);
}

function addCerts(program: Command): void {
  const certs = program.command("certs").description("create, show and rotate node certificates");
  const folder = "folder with pins.pem or ca.crt, and a subfolder per node with tls.crt and tls.key";
  const add = (name: string, text: string) =>
    certs.command(name, { isDefault: name === "make" }).description(text).argument("<dir>", folder).addOption(json());
  const days = () => new Option("--days <n>", "validity in days").argParser(countUpTo(36_500)).default(90);
  const host = () => new Option("--host <name...>", "further host names in the certificate, e.g. *.workers");
  add("make", "create a certificate for each node that has none (the default of `certs <dir> --node ...`)")
    .option("--node <id...>", "node ids, one folder each below <dir>").addOption(days()).addOption(host())
    .option("--ca", "create an own authority in <dir> that signs the certificates, instead of pinning each")
    .addOption(reason())
    .action(async (dir, options) => (await load("services/certs")).makeCommand(dir, options));
  add(
    "status",
    "show each node's certificate, its remaining days and the trusted set; exit 1 if a certificate is unusable",
  )
    .action(async (dir, options) => (await load("services/certs")).statusCommand(dir, options));
  add("rotate", "create new certificates; pinned ones wait until every node has the new pins.pem")
    .option("--node <id...>", "only of these nodes; default all").addOption(days()).addOption(host())
    .option("--ca", "create a new authority, instead of new node certificates")
    .addOption(reason())
    .action(async (dir, options) => (await load("services/certs")).rotateCommand(dir, options));
  add("switch", "put waiting certificates into use; with DATABASE_URL set, only if every worker trusts them").addOption(
    days(),
  )
    .addOption(host()).option("--force", "skip the check of the workers")
    .addOption(reason())
    .action(async (dir, options) => (await load("services/certs")).switchCommand(dir, options));
  add("forget", "stop trusting a node or certificates; with DATABASE_URL set, only if no worker still uses them")
    .argument("[what]", "a node's id, or the start of a fingerprint")
    .option("--former", "all certificates that were replaced by a switch").option(
      "--force",
      "skip the check of the workers",
    )
    .addOption(reason())
    .action(async (dir, what, options) => (await load("services/certs")).forgetCommand(dir, what, options));
}
