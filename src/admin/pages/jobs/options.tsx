/** The form in which options of a job are set beside its file, all at once: all of them or none. */
import { type JobOption, optionsOf } from "../../../job_options/overridable.ts";
import { type Json, PRIORITIES } from "../../../job.ts";
import { readDefinition } from "../../../definitions/definition_rows.ts";
import { readOverrides } from "../../../definitions/override_rows.ts";
import {
  type ActionContext,
  type Done,
  field,
  type Page,
  PageError,
  type RequestContext,
} from "../../request_context.ts";
import { valueText } from "./option_table.tsx";
import { setBeside, setForm, wasName } from "./set_form.tsx";
import { saidText, t } from "../../../locale/locale.ts";

const CHOICES: Record<string, string[]> = {
  enabled: ["true", "false"],
  concurrency: ["allow", "forbid", "replace", "queueOne"],
};

export async function showOptions(on: RequestContext): Promise<Page> {
  return optionsPage(on, await readOptions(on));
}

async function readOptions(on: RequestContext): Promise<JobOption[]> {
  const definition = await readDefinition(on.sql, on.params.name ?? "");
  if (!definition || definition.removed_at) throw new PageError(404);
  const overrides = await readOverrides(on.sql, definition.id);
  return optionsOf({ ...definition, schedules: [] }, overrides).filter(({ name }) => !name.startsWith("schedule."));
}

/** Only what was changed in the form is set: the file goes on deciding about the rest, and so does who else changed something meanwhile. */
export async function changeOptions(on: ActionContext): Promise<Done | Page> {
  const options = await readOptions(on);
  const text = (one: JobOption) => field(on.form, one.name);
  const was = (one: JobOption) => on.form.has(wasName(one.name)) ? field(on.form, wasName(one.name)) : boxText(one);
  const changed = options.filter((one) => on.form.has(one.name) && text(one) !== was(one));
  const typed = Object.fromEntries(changed.map((one) => [one.name, text(one)]));
  const refused = (problem: string) => optionsPage(on, options, { typed, problem });
  const moved = changed.filter((one) => ![was(one), text(one)].includes(boxText(one)));
  if (moved.length > 0) {
    return refused(
      t(on, "jobs.moved", {
        now: moved.map((one) =>
          t(on, "jobs.moved_one", { name: one.name, value: valueText(on, one.value), who: one.override?.set_by })
        ).join(", "),
      }),
    );
  }
  return await setBeside(
    on,
    Object.fromEntries(changed.map((one) => [one.name, wishFrom(one.name, text(one))])),
    refused,
  );
}

function optionsPage(
  on: RequestContext,
  options: JobOption[],
  sent?: { typed: Record<string, string>; problem: string },
): Page {
  const name = on.params.name ?? "";
  return setForm(on, {
    title: `${t(on, "jobs.change")} · ${name}`,
    heading: t(on, "jobs.change"),
    lead: t(on, "jobs.change_lead"),
    action: `/jobs/${name}/options`,
    problem: sent?.problem,
    fields: (
      <>
        <section class="inside">
          {options.map((one) => (
            <div class="field">
              <label for={`option-${one.name}`}>
                <code>{one.name}</code>
              </label>
              <Hint on={on} option={one.name} />
              <Box option={one} typed={sent?.typed[one.name] ?? boxText(one)} />
              <input type="hidden" name={wasName(one.name)} value={boxText(one)} />
              <small class="hint">
                {t(on, "jobs.file_says")}: {one.override ? valueText(on, one.file_value) : valueText(on, one.value)}
                {one.override && ` · ${one.override.set_by}: ${saidText(on, one.override.reason)}`}
              </small>
            </div>
          ))}
        </section>
        <datalist id="priorities">{Object.keys(PRIORITIES).map((one) => <option value={one} />)}</datalist>
      </>
    ),
  });
}

function Box({ option, typed }: { option: JobOption; typed: string }) {
  const common = { id: `option-${option.name}`, name: option.name };
  const words = CHOICES[option.name];
  if (words) {
    return (
      <select {...common}>{words.map((one) => <option value={one} selected={one === typed}>{one}</option>)}</select>
    );
  }
  const more = option.name === "priority"
    ? { list: "priorities" }
    : option.name === "rate"
    ? { placeholder: "60/1" }
    : {};
  return <input {...common} {...more} value={typed} autocomplete="off" spellcheck={false} />;
}

/** What stands in the box of an option as it is. A rate is "count/seconds", as on the command line. */
function boxText({ name, value }: JobOption): string {
  if (value === null) return "";
  if (name === "rate") {
    const { count, seconds } = value as { count: number; seconds: number };
    return `${count}/${seconds}`;
  }
  return String(value);
}

/** What is no number stays a text, for the complaint to quote. */
function wishFrom(name: string, text: string): Json {
  if (text === "") return null;
  if (name === "enabled") return text === "true";
  if (name === "node" || name === "concurrency") return text;
  const [, count, seconds = "1"] = name === "rate" ? /^(\d+)(?:\/(\d+(?:\.\d+)?))?$/.exec(text) ?? [] : [];
  if (count !== undefined) return { count: Number(count), seconds: Number(seconds) };
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

const HINTED = [
  ...["enabled", "priority", "timeoutSeconds", "retry.max", "retry.backoffSeconds"] as const,
  ...["concurrency", "concurrency.limit", "rate", "node"] as const,
];

/** What an option does, in a line below its box. */
function Hint({ on, option }: { on: RequestContext; option: string }) {
  const known = HINTED.find((one) => one === option);
  return known ? <small class="hint">{t(on, `jobs.option.${known}`)}</small> : null;
}
