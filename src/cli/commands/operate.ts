/** `nodes`, `settings`, `alerts`, `audit`, `drill`, `doctor`. */
import type { Command } from "commander";
import { load } from "./load.ts";
import { countUpTo, json, reason } from "./options.ts";
import type { Signals } from "../../app/output.ts";

export function addLooking(program: Command, signals: Signals): void {
  const nodes = program.command("nodes").description("look at nodes and their workers");
  nodes.command("ls").description("nodes and what their checks found; workers, their roles and loads").addOption(json())
    .action(async (options) => (await load("operate/nodes")).listCommand(options));
  nodes.command("show").description("nodes, with each part of their last checks")
    .argument("[node]", "one of them; without it all, also those that no worker is alive on").addOption(json())
    .action(async (node, options) => (await load("operate/node_health")).showNodesCommand(node, options));
  nodes.command("test").description("check a node now, exit 0 only when it is available").argument("<node>")
    .addOption(reason()).addOption(json())
    .action(async (node, options) => (await load("operate/node_health")).testNodeCommand(node, options));
  nodes.command("set").description("change a node: its limit, its labels, maintenance; what runs goes on")
    .argument("<node>")
    .option("--max-concurrent <n>", "bodies on it at once; none: as many as its workers have slots")
    .option("--label <name=value...>", "such as gpu=a100; an empty value takes the label away")
    .option("--maintenance <on|off>", "on: it gets no new work and is not checked")
    .addOption(reason("kept in the audit, and shown while in maintenance"))
    .addOption(json())
    .action(async (node, options) => (await load("operate/node_health")).setNodeCommand(node, options));
  nodes.command("rm").description("forget a node that is gone for good; its runs stay").argument("<node>")
    .addOption(reason()).addOption(json())
    .action(async (node, options) => (await load("operate/node_health")).removeNodeCommand(node, options));
  for (const [verb, what] of [["drain", "take no new runs"], ["undrain", "take runs again"]] as const) {
    nodes.command(verb).description(`let a worker, or all of a node, ${what}`).argument(
      "<id>",
      "a worker's or node's id",
    )
      .addOption(reason()).addOption(json())
      .action(async (id, options) => (await load("operate/nodes")).drainCommand(id, options, verb === "drain"));
  }
  nodes.command("detach")
    .description(
      "take a worker, or all of a node, out of the work: it starts nothing more, and its bodies go on only while the leader confirms them",
    )
    .argument("<id>", "a worker's or node's id")
    .addOption(reason()).addOption(json())
    .action(async (id, options) => (await load("operate/nodes")).detachCommand(id, options));
  nodes.command("degrade").description("let the leader step down, and another worker lead; runs go on")
    .addOption(reason()).addOption(json())
    .action(async (options) => (await load("operate/nodes")).degradeCommand(options));
  program.command("drill")
    .description("break the running dev on purpose, under a load of its own, and say what came of it")
    .argument("[name]", "which drill; without a name they are listed")
    .option("--all", "one after the other")
    .option("--yes <prefix>", "redis-flush may delete the keys with this prefix from a Redis that is not dev's own")
    .addOption(json())
    .action(async (name, options) => (await load("operate/drill")).drillCommand(name, options, signals));
  program.command("doctor").description("check everything that a worker needs, and say how to mend what is missing")
    .addOption(json())
    .action(async (options) => (await load("operate/doctor")).doctorCommand(options));
}

export function addAudit(program: Command): void {
  program.command("audit").description("who did what to what, when and why: the newest acts")
    .option("--actor <name>", "by this one only: user:NAME, token:NAME, cli:NAME, client or system")
    .option("--action <name>", "this act, such as run.cancel, or its first part: run")
    .option("--target <kind>", 'done to this, such as run, or to one of it, such as "run 812"')
    .option("--since <instant>", "then or later, or 10m for so long ago").option("--until <instant>", "before")
    .option("--limit <n>", "so many, at most 1000", countUpTo(1000), 20).addOption(json())
    .action(async (options) => (await load("operate/audit")).auditCommand(options));
}

export function addAlerts(program: Command): void {
  const alerts = program.command("alerts").description(
    "what somebody should look at, and the webhook that is told of it",
  );
  alerts.command("ls").description("alerts that are open").option("--all", "those that are over as well")
    .option("--limit <n>", "so many, at most 1000", countUpTo(1000), 50).addOption(json())
    .action(async (options) => (await load("operate/alerts")).listCommand(options));
  alerts.command("ack").description("say that you have seen one; a failure or a lost node is closed by that").argument(
    "<id>",
  )
    .addOption(reason()).addOption(json())
    .action(async (id, options) => (await load("operate/alerts")).ackCommand(id, options));
  alerts.command("test").description("send a test to the webhook, exit 0 only when it was taken").addOption(json())
    .action(async (options) => (await load("operate/alerts")).testCommand(options));
}

export function addSettings(program: Command): void {
  const settings = program.command("settings").description("what holds for all workers, at once and without a restart");
  settings.command("ls").description("all, with what they do, bounds, and who changed them; * is not the default")
    .option("--changed", "only those that somebody changed").addOption(json())
    .action(async (options) => (await load("operate/settings")).listCommand(options));
  settings.command("set").description("change some, all of them or none").argument("<name=value...>")
    .addOption(reason()).addOption(json())
    .action(async (given, options) => (await load("operate/settings")).setCommand(given, options));
  settings.command("reset").description("back to their defaults").argument("<name...>")
    .addOption(reason()).addOption(json())
    .action(async (names, options) => (await load("operate/settings")).resetCommand(names, options));
}
