/** The commands of the admin server and who may use it: `admin`, its users and tokens, and `hooks`. */
import { type Command, Option } from "commander";
import { load } from "./load.ts";
import { json, portNumber, reason, wholeNumber } from "./options.ts";
import type { Signals } from "../../app/output.ts";

export function addAdmin(program: Command, signals: Signals): void {
  const admin = program.command("admin").description("the admin page: see everything, and act on it");
  admin.command("serve", { isDefault: true }).description("serve the page until it is told to stop")
    .option("--host <address>", "where it listens; default SCHEDULER_ADMIN_HOST, or 127.0.0.1")
    .option("--port <n>", "0: any free one; default SCHEDULER_ADMIN_PORT, or 8420", portNumber)
    .action(async (options) => (await load("operate/admin")).serveCommand(options, signals));
  const user = admin.command("user").description("who may use it: viewer, operator or admin");
  const made = () => new Option("--generate", "make a password and show it once, instead of asking for one");
  user.command("add").description("a new user; its password is asked for, or read from stdin").argument("<name>")
    .requiredOption("--role <role>", "viewer: look; operator: act on work; admin: everything").addOption(made())
    .addOption(json()).action(async (name, options) => (await load("operate/admin")).addUserCommand(name, options));
  user.command("ls").description("all users").addOption(json())
    .action(async (options) => (await load("operate/admin")).listUsersCommand(options));
  user.command("set-role").description("from the next click on").argument("<name>").argument("<role>")
    .addOption(json()).action(async (name, role, options) =>
      (await load("operate/admin")).setRoleCommand(name, role, options)
    );
  user.command("passwd").description("a new password; it is logged out everywhere").argument("<name>")
    .addOption(made()).addOption(json()).action(async (name, options) =>
      (await load("operate/admin")).passwdCommand(name, options)
    );
  user.command("rm").description("remove a user; what it did stays in the audit").argument("<name>").addOption(json())
    .action(async (name, options) => (await load("operate/admin")).removeUserCommand(name, options));
  user.command("disable").description("shut a user out; its sessions, and the tokens that it made, end at once")
    .argument("<name>").addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("operate/admin")).disableUserCommand(name, options));
  user.command("enable").description("let it in again").argument("<name>").addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("operate/admin")).enableUserCommand(name, options));
  user.command("unlock").description("forget wrong passwords, so that it can log in from everywhere").argument("<name>")
    .addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("operate/admin")).unlockUserCommand(name, options));
  const token = admin.command("token").description("by which programs use the API");
  token.command("add").description("a new token, which is shown once").argument("<name>")
    .requiredOption("--scope <scope...>", "read, emit (runs and events), operate (both, and acts), admin (everything)")
    .option("--days <n>", "good for so many days", wholeNumber, 90).addOption(json())
    .action(async (name, options) => (await load("operate/tokens")).addTokenCommand(name, options));
  token.command("ls").description("all tokens, without themselves").addOption(json())
    .action(async (options) => (await load("operate/tokens")).listTokensCommand(options));
  token.command("rm").description("take a token back").argument("<name>").addOption(json())
    .action(async (name, options) => (await load("operate/tokens")).removeTokenCommand(name, options));
}

export function addHooks(program: Command): void {
  const hooks = program.command("hooks").description("where other programs deliver events over HTTP, signed");
  hooks.command("ls").description("all of them, without their secrets").addOption(json())
    .action(async (options) => (await load("operate/webhooks")).listCommand(options));
  hooks.command("add").description("make one, and print its secret once").argument("<name>", "the end of its address")
    .requiredOption("--event <type>", "what its deliveries become, e.g. order.placed")
    .option("--signature <kind>", "dandori, over time, id and body; or github, over the body", "dandori")
    .option("--rate <n>", "so many deliveries a minute", wholeNumber, 60)
    .addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("operate/webhooks")).addCommand(name, options));
  hooks.command("rm").description("remove one; its deliveries are refused").argument("<name>")
    .addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("operate/webhooks")).removeCommand(name, options));
}
