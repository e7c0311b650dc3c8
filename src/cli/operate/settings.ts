/** `settings`: what holds for all processes, read again by each of them within seconds. */
import { wordLike } from "../../platform/shown.ts";
import {
  DEFAULT_SETTINGS,
  listSettings,
  NUMBER_SETTINGS,
  readSettings,
  type SettingsChange,
  type SettingView,
} from "../../settings/settings.ts";
import { Refused } from "../../actions/args.ts";
import { setSettings } from "../../actions/system_actions.ts";
import { type JsonOption, performOn, type Reasoned, withDb } from "../operator.ts";
import { CommandError, EXIT, printJson, say } from "../../app/output.ts";
import { printTable } from "../table.ts";

export async function listCommand(options: JsonOption & { changed?: boolean }): Promise<void> {
  const all = await withDb(listSettings);
  const shown = options.changed ? all.filter((one) => one.updated_at !== null) : all;
  if (options.json) return printJson(shown);
  print(shown);
}

function print(settings: SettingView[]): void {
  printTable(
    ["setting", "value", "default", "from", "to", "changed by", "at", "what it does"],
    settings.map((one) => [
      one.name,
      one.updated_at === null ? String(one.value) : `${one.value} *`,
      String(one.default),
      one.choices ? one.choices.join("|") : one.least,
      one.most,
      one.updated_by,
      one.updated_at,
      one.about,
    ]),
    "no setting was changed: all have their defaults",
  );
}

/** All of them or none: they relate to each other. */
export async function setCommand(given: string[], options: Reasoned): Promise<void> {
  await change(Object.fromEntries(given.map(valueFrom)), options, EXIT.usage);
}

export async function resetCommand(names: string[], options: Reasoned): Promise<void> {
  await change(Object.fromEntries(names.map((name) => [name, null])), options, EXIT.failed);
}

async function change(wanted: SettingsChange, options: Reasoned, refused: number): Promise<void> {
  const [changed, all, follow_seconds] = await withDb(async (sql) => {
    try {
      const { worker_renew_seconds } = await readSettings(sql); // with its next renewal each reads them anew
      const names = await performOn(
        sql,
        setSettings,
        { values: wanted as Record<string, number | string | null> },
        options,
      );
      return [names, await listSettings(sql), Math.ceil(worker_renew_seconds)] as const;
    } catch (error) {
      if (error instanceof Refused) throw new CommandError(error.message, refused);
      throw error;
    }
  });
  const shown = all.filter(({ name }) => Object.hasOwn(wanted, name));
  if (options.json) return printJson(shown);
  print(shown);
  say(
    changed.length > 0
      ? `\nEvery process applies the change within ${follow_seconds} s`
      : "\nNothing changed: the settings already have these values",
  );
}

function valueFrom(text: string): [string, number | string] {
  const [, name = "", value = ""] = /^([a-z_]+)=(.+)$/.exec(text) ?? [];
  if (!Object.hasOwn(DEFAULT_SETTINGS, name)) {
    const like = wordLike(name, Object.keys(DEFAULT_SETTINGS));
    const hint = like ? `did you mean ${like}?` : "see `deno task settings ls`";
    const fix = name === "" ? "give NAME=VALUE" : hint;
    throw new CommandError(
      `Cannot set "${text}": ${name === "" ? "there is no name and value" : "no such setting"}; ${fix}`,
      EXIT.usage,
    );
  }
  if (!Object.hasOwn(NUMBER_SETTINGS, name)) return [name, value];
  const number = Number(value);
  if (Number.isFinite(number)) return [name, number];
  throw new CommandError(`Cannot set ${name} to "${value}": give a number`, EXIT.usage);
}
