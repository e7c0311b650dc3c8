/** The form in which options of a job are set beside its file, all at once: all of them or none. */
import { type JobOption, optionsOf } from "../../../catalog/job_options.ts";
import { setOverrides } from "../../../catalog/overrides.ts";
import { type Json, PRIORITIES } from "../../../job.ts";
import { readDefinition } from "../../../store/definitions.ts";
import { readOverrides } from "../../../store/overrides.ts";
import { engineText } from "../../parts/engine_text.ts";
import { Csrf } from "../../parts/dialog.tsx";
import { Problem } from "../../parts/notes.tsx";
import { by } from "../../acting.ts";
import { type Act, type Done, field, link, type Page, Refusal, type Visit } from "../../visit.ts";
import { valueText } from "./option_table.tsx";
import { complaintsText } from "../../parts/complaint_text.ts";
import { JOBS, OPTION_HINTS } from "./words.ts";

const CHOICES: Record<string, string[]> = {
  enabled: ["true", "false"],
  concurrency: ["allow", "forbid", "replace", "queueOne"],
};
const MOST_REASON = 500;

export async function showOptions(on: Visit): Promise<Page> {
  return optionsPage(on, await readOptions(on), {});
}

async function readOptions(on: Visit): Promise<JobOption[]> {
  const definition = await readDefinition(on.sql, on.params.name ?? "");
  if (!definition || definition.removed_at) throw new Refusal(404);
  const overrides = await readOverrides(on.sql, definition.id);
  return optionsOf({ ...definition, schedules: [] }, overrides).filter(({ name }) => !name.startsWith("schedule."));
}

/** Only what was changed in the form is set: the file goes on deciding about the rest, and so does who else changed something meanwhile. */
export async function changeOptions(on: Act): Promise<Done | Page> {
  const name = on.params.name ?? "";
  const say = JOBS[on.lang];
  const options = await readOptions(on);
  const text = (one: JobOption) => field(on.form, one.name);
  const was = (one: JobOption) => on.form.has(wasName(one.name)) ? field(on.form, wasName(one.name)) : boxText(one);
  const changed = options.filter((one) => on.form.has(one.name) && text(one) !== was(one));
  const typed = Object.fromEntries(changed.map((one) => [one.name, text(one)]));
  const moved = changed.filter((one) => ![was(one), text(one)].includes(boxText(one)));
  if (moved.length > 0) {
    const now = moved.map((one) => say.moved_one(one.name, valueText(on, one.value), one.override?.set_by));
    return optionsPage(on, options, { typed, problem: say.moved(now.join(", ")), reason: field(on.form, "reason") });
  }
  const wishes = Object.fromEntries(changed.map((one) => [one.name, wishFrom(one.name, text(one))]));
  const answer = await setOverrides(on.sql, name, wishes, by(on));
  if (!answer) throw new Refusal(404);
  if (!answer.ok) {
    return optionsPage(on, options, {
      typed,
      problem: complaintsText(on.lang, answer.complaints),
      reason: field(on.form, "reason"),
    });
  }
  if (answer.changed.length === 0) return { to: `/jobs/${name}`, text: say.set_nothing };
  return { to: `/jobs/${name}`, text: say.set_done(answer.changed.map((one) => one.name).join(", ")) };
}

function optionsPage(
  on: Visit,
  options: JobOption[],
  sent: { typed?: Record<string, string>; problem?: string; reason?: string },
): Page {
  const say = JOBS[on.lang];
  const hints = OPTION_HINTS[on.lang];
  const name = on.params.name ?? "";
  return {
    title: `${say.change} · ${name}`,
    status: sent.problem === undefined ? undefined : 400,
    body: (
      <form class="form" method="post" action={link(on, `/jobs/${name}/options`)}>
        <h1>
          {say.change}{" "}
          <small>
            <a href={link(on, `/jobs/${name}`)}>{name}</a>
          </small>
        </h1>
        <p class="lead">{say.change_lead}</p>
        {sent.problem && <Problem title={say.cannot_set} text={sent.problem} />}
        <section class="inside">
          {options.map((one) => (
            <div class="field">
              <label for={`option-${one.name}`}>
                <code>{one.name}</code>
              </label>
              {Object.hasOwn(hints, one.name) && <small class="hint">{hints[one.name as keyof typeof hints]}</small>}
              <Box option={one} typed={sent.typed?.[one.name] ?? boxText(one)} />
              <input type="hidden" name={wasName(one.name)} value={boxText(one)} />
              <small class="hint">
                {say.file_says}: {one.override ? valueText(on, one.file_value) : valueText(on, one.value)}
                {one.override && ` · ${one.override.set_by}: ${engineText(on.lang, one.override.reason)}`}
              </small>
            </div>
          ))}
        </section>
        <datalist id="priorities">{Object.keys(PRIORITIES).map((one) => <option value={one} />)}</datalist>
        <Foot on={on} reason={sent.reason} back={`/jobs/${name}`} verb={say.save} />
      </form>
    ),
  };
}

/** What ends a form that changes something: why, and the button that does it. */
export function Foot({ on, reason, back, verb }: { on: Visit; reason?: string; back: string; verb: string }) {
  const say = JOBS[on.lang];
  return (
    <>
      <label>
        {say.reason_kept}
        <input name="reason" maxlength={MOST_REASON} autocomplete="off" value={reason ?? ""} />
      </label>
      <Csrf on={on} />
      <div class="buttons">
        <a class="button" href={link(on, back)}>{say.back}</a>
        <button type="submit" class="primary">{verb}</button>
      </div>
    </>
  );
}

/** In a form: what its box held when the form was made. */
export function wasName(name: string): string {
  return `was.${name}`;
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
