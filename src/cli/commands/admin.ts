/** The commands of the admin server and who may use it: `admin`, its users and tokens, and `hooks`. */
import { type Command, Option } from "commander";
import { load } from "./load.ts";
import { json, portNumber, reason, wholeNumber } from "./options.ts";
import type { Signals } from "../../app/output.ts";

export function addAdmin(program: Command, signals: Signals): void {
  const admin = program.command("admin").description("the admin page, its users and API tokens");
  admin.command("serve", { isDefault: true }).description("serve the page until a stop signal")
    .option("--host <address>", "address to listen on; default SCHEDULER_ADMIN_HOST, or 127.0.0.1")
    .option("--port <n>", "port to listen on, 0: any free port; default SCHEDULER_ADMIN_PORT, or 8420", portNumber)
    .action(async (options) => (await load("operate/admin")).serveCommand(options, signals));
  const user = admin.command("user").description("users of the admin page: viewer, operator or admin");
  const made = () => new Option("--generate", "generate a password and show it once, instead of asking for one");
  user.command("add").description("add a user; the password is asked for, or read from stdin").argument("<name>")
    .requiredOption("--role <role>", "viewer: read; operator: also act on jobs and runs; admin: everything").addOption(
      made(),
    )
    .addOption(json()).action(async (name, options) => (await load("operate/admin")).addUserCommand(name, options));
  user.command("ls").description("list users").addOption(json())
    .action(async (options) => (await load("operate/admin")).listUsersCommand(options));
  user.command("set-role").description("change a user's role, from the next request on").argument("<name>").argument(
    "<role>",
  )
    .addOption(json()).action(async (name, role, options) =>
      (await load("operate/admin")).setRoleCommand(name, role, options)
    );
  user.command("passwd").description("set a new password and end all sessions of the user").argument("<name>")
    .addOption(made()).addOption(json()).action(async (name, options) =>
      (await load("operate/admin")).passwdCommand(name, options)
    );
  user.command("rm").description("remove a user; its audit entries stay").argument("<name>").addOption(json())
    .action(async (name, options) => (await load("operate/admin")).removeUserCommand(name, options));
  user.command("disable").description("disable a user; its sessions and the tokens that it created end at once")
    .argument("<name>").addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("operate/admin")).disableUserCommand(name, options));
  user.command("enable").description("enable a disabled user").argument("<name>").addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("operate/admin")).enableUserCommand(name, options));
  user.command("unlock").description("reset a user's failed logins, so that it can log in from everywhere").argument(
    "<name>",
  )
    .addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("operate/admin")).unlockUserCommand(name, options));
  const token = admin.command("token").description("API tokens for programs");
  token.command("add").description("create a token and show it once").argument("<name>")
    .requiredOption(
      "--scope <scope...>",
      "read; emit: create runs and events; operate: both, and actions; admin: everything",
    )
    .option("--days <n>", "validity in days", wholeNumber, 90).addOption(json())
    .action(async (name, options) => (await load("operate/tokens")).addTokenCommand(name, options));
  token.command("ls").description("list tokens, without their secrets").addOption(json())
    .action(async (options) => (await load("operate/tokens")).listTokensCommand(options));
  token.command("rm").description("revoke a token").argument("<name>").addOption(json())
    .action(async (name, options) => (await load("operate/tokens")).removeTokenCommand(name, options));
}

export function addHooks(program: Command): void {
  const hooks = program.command("hooks").description("webhooks: signed events from other programs over HTTP");
  hooks.command("ls").description("list webhooks, without their secrets").addOption(json())
    .action(async (options) => (await load("operate/webhooks")).listCommand(options));
  hooks.command("add").description("create a webhook and show its secret once").argument(
    "<name>",
    "last part of its URL",
  )
    .requiredOption("--event <type>", "type of the events it creates, e.g. order.placed")
    .option("--signature <kind>", "dandori: signs time, id and body; github: signs the body", "dandori")
    .option("--rate <n>", "deliveries allowed per minute", wholeNumber, 60)
    .addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("operate/webhooks")).addCommand(name, options));
  hooks.command("rm").description("remove a webhook; further deliveries are refused").argument("<name>")
    .addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("operate/webhooks")).removeCommand(name, options));
}
