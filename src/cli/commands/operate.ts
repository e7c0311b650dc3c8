/** `nodes`, `settings`, `alerts`, `audit`, `drill`, `doctor`. */
import type { Command } from "commander";
import { load } from "./load.ts";
import { countUpTo, json, reason } from "./options.ts";
import type { Signals } from "../../app/output.ts";

export function addLooking(program: Command, signals: Signals): void {
  const nodes = program.command("nodes").description("show and operate nodes and their workers");
  nodes.command("ls").description("list nodes with their checks, and workers with roles and load").addOption(json())
    .action(async (options) => (await load("operate/nodes")).listCommand(options));
  nodes.command("show").description("show each part of a node's last check")
    .argument("[node]", "a node; default: all, including nodes without a living worker").addOption(json())
    .action(async (node, options) => (await load("operate/node_health")).showNodesCommand(node, options));
  nodes.command("test").description("check a node now; exit 0 only if it is available").argument("<node>")
    .addOption(reason()).addOption(json())
    .action(async (node, options) => (await load("operate/node_health")).testNodeCommand(node, options));
  nodes.command("set").description("change a node's limit, labels or maintenance; running bodies go on")
    .argument("<node>")
    .option("--max-concurrent <n>", "bodies at once on this node; none: the slots of its workers")
    .option("--label <name=value...>", "a label such as gpu=a100; an empty value removes the label")
    .option("--maintenance <on|off>", "on: no new work and no checks")
    .addOption(reason("stored in the audit log, and shown during maintenance"))
    .addOption(json())
    .action(async (node, options) => (await load("operate/node_health")).setNodeCommand(node, options));
  nodes.command("rm").description("remove a node that is gone for good; its runs stay").argument("<node>")
    .addOption(reason()).addOption(json())
    .action(async (node, options) => (await load("operate/node_health")).removeNodeCommand(node, options));
  for (const [verb, what] of [["drain", "stop new runs"], ["undrain", "allow new runs again"]] as const) {
    nodes.command(verb).description(`${what}: a worker, or all workers of a node`).argument(
      "<id>",
      "a worker's or node's id",
    )
      .addOption(reason()).addOption(json())
      .action(async (id, options) => (await load("operate/nodes")).drainCommand(id, options, verb === "drain"));
  }
  nodes.command("detach")
    .description(
      "take a worker, or all workers of a node, out of service: nothing new starts, and bodies go on only while the leader confirms them",
    )
    .argument("<id>", "a worker's or node's id")
    .addOption(reason()).addOption(json())
    .action(async (id, options) => (await load("operate/nodes")).detachCommand(id, options));
  nodes.command("degrade").description("make the leader step down, so that another worker leads; runs go on")
    .addOption(reason()).addOption(json())
    .action(async (options) => (await load("operate/nodes")).degradeCommand(options));
  program.command("drill")
    .description("inject a fault into the running dev cluster under load, and report the result")
    .argument("[name]", "name of the drill; default: list the drills")
    .option("--all", "run all drills, one after another")
    .option(
      "--yes <prefix>",
      "allow redis-flush to delete the keys with this prefix from a Redis that dev did not start",
    )
    .addOption(json())
    .action(async (name, options) => (await load("operate/drill")).drillCommand(name, options, signals));
  program.command("doctor").description("check everything that a worker needs, and show how to fix what is missing")
    .addOption(json())
    .action(async (options) => (await load("operate/doctor")).doctorCommand(options));
}

export function addAudit(program: Command): void {
  program.command("audit").description("show the audit log: who did what, to what, when and why; newest first")
    .option("--actor <name>", "only by this actor: user:NAME, token:NAME, cli:NAME, client or system")
    .option("--action <name>", "only this action, such as run.cancel, or its first part: run")
    .option("--target <kind>", 'only this kind of target, such as run, or one target, such as "run 812"')
    .option("--since <instant>", "from this instant on, or 10m for ten minutes ago").option(
      "--until <instant>",
      "before this instant",
    )
    .option("--limit <n>", "number of rows, at most 1000", countUpTo(1000), 20).addOption(json())
    .action(async (options) => (await load("operate/audit")).auditCommand(options));
}

export function addAlerts(program: Command): void {
  const alerts = program.command("alerts").description(
    "show and acknowledge alerts, and test their webhook",
  );
  alerts.command("ls").description("list open alerts").option("--all", "include closed alerts")
    .option("--limit <n>", "number of rows, at most 1000", countUpTo(1000), 50).addOption(json())
    .action(async (options) => (await load("operate/alerts")).listCommand(options));
  alerts.command("ack").description("acknowledge an alert; this closes the alert of a failed run or a lost node")
    .argument(
      "<id>",
    )
    .addOption(reason()).addOption(json())
    .action(async (id, options) => (await load("operate/alerts")).ackCommand(id, options));
  alerts.command("test").description("send a test alert to the webhook; exit 0 only if the webhook accepts it")
    .addOption(json())
    .action(async (options) => (await load("operate/alerts")).testCommand(options));
}

export function addSettings(program: Command): void {
  const settings = program.command("settings").description("settings of all workers; changes need no restart");
  settings.command("ls").description(
    "list settings with bounds, description and last change; * marks a value that is not the default",
  )
    .option("--changed", "only changed settings").addOption(json())
    .action(async (options) => (await load("operate/settings")).listCommand(options));
  settings.command("set").description("change settings together: all of them or none").argument("<name=value...>")
    .addOption(reason()).addOption(json())
    .action(async (given, options) => (await load("operate/settings")).setCommand(given, options));
  settings.command("reset").description("reset settings to their defaults").argument("<name...>")
    .addOption(reason()).addOption(json())
    .action(async (names, options) => (await load("operate/settings")).resetCommand(names, options));
}
