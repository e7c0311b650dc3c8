/**
 * The editor of one schedule: what is typed is shown as next fires before it is saved, by the same functions that check and
 * plan it. The address holds what is typed, so the preview is this page asked for again.
 */
import { kindStored, SCHEDULE_KINDS, typedTime } from "../../../schedule_kinds/kinds.ts";
import { scheduleWith } from "../../../sync/overrides.ts";
import { readDefinition, type StoredSchedule } from "../../../definitions/definition_rows.ts";
import { Problem } from "../../parts/notes.tsx";
import {
  type ActionContext,
  type Done,
  field,
  link,
  type Page,
  PageError,
  type RequestContext,
} from "../../request_context.ts";
import { Fires } from "./schedules.tsx";
import { setBeside, setForm, wasName } from "./set_form.tsx";
import { complaintsText } from "../../parts/complaint_text.ts";
import { t } from "../../../locale/locale.ts";

interface Typed {
  kind: string;
  value: string;
  timezone: string;
}

const NAMES = ["kind", "value", "timezone"] as const;
const LONGEST = 200;

export async function showSchedule(on: RequestContext): Promise<Page> {
  const schedule = await readSchedule(on);
  const was = asTyped(schedule);
  const text = (name: keyof Typed) => on.query.get(name)?.trim().slice(0, LONGEST) ?? was[name];
  return editor(on, schedule, mapTyped(text));
}

async function readSchedule(on: RequestContext): Promise<StoredSchedule> {
  const definition = await readDefinition(on.sql, on.params.name ?? "");
  const schedule = definition?.schedules.find((one) => one.schedule_id === on.params.schedule);
  if (!definition || definition.removed_at || !schedule) throw new PageError(404);
  return schedule;
}

/** Only what was changed in the form is set: the file goes on deciding about the rest, and so does who else changed something meanwhile. */
export async function changeSchedule(on: ActionContext): Promise<Done | Page> {
  const schedule = await readSchedule(on);
  const [typed, now] = [mapTyped((name) => field(on.form, name)), asTyped(schedule)];
  const was = mapTyped((name) => on.form.has(wasName(name)) ? field(on.form, wasName(name)) : now[name]);
  const [changed, moved, differs] = [differenceOf(was, typed), differenceOf(was, now), differenceOf(typed, now)];
  if ((["time", "timezone"] as const).some((part) => changed[part] && moved[part] && differs[part])) {
    const problem = t(on, "jobs.moved", {
      now: t(on, "jobs.moved_one", {
        name: schedule.schedule_id,
        value: `${now.kind} ${now.value} ${now.timezone}`,
        who: null,
      }),
    });
    const kept = { ...(changed.time ? typed : now), timezone: (changed.timezone ? typed : now).timezone };
    return editor(on, schedule, kept, problem);
  }
  const wish = {
    ...(changed.time ? typedTime(typed.kind, typed.value) : {}),
    ...(changed.timezone ? { timezone: typed.timezone } : {}),
  };
  const wishes = Object.entries(wish).map(([key, value]) => [`schedule.${schedule.schedule_id}.${key}`, value]);
  return await setBeside(on, Object.fromEntries(wishes), (problem) => editor(on, schedule, typed, problem));
}

function mapTyped(of: (name: keyof Typed) => string): Typed {
  return { kind: of("kind"), value: of("value"), timezone: of("timezone") };
}

/** A value means nothing without its kind, so they change together. */
function differenceOf(one: Typed, other: Typed): { time: boolean; timezone: boolean } {
  return {
    time: one.kind !== other.kind || one.value !== other.value,
    timezone: one.timezone !== other.timezone,
  };
}

function asTyped({ schedule_type, schedule_value, timezone }: StoredSchedule): Typed {
  return { kind: kindStored(schedule_type).option, value: schedule_value, timezone };
}

function editor(on: RequestContext, schedule: StoredSchedule, typed: Typed, problem?: string): Page {
  const { name = "" } = on.params;
  const path = `/jobs/${name}/schedules/${encodeURIComponent(schedule.schedule_id)}`;
  const { kind, value, timezone } = typed;
  return setForm(on, {
    title: t(on, "jobs.edit_title", { id: schedule.schedule_id }),
    heading: t(on, "jobs.edit_title", { id: schedule.schedule_id }),
    lead: t(on, "jobs.edit_lead"),
    action: path,
    problem,
    fields: (
      <>
        <section class="fields">
          <label>
            {t(on, "jobs.kind")}
            <select name="kind" data-when="">
              {SCHEDULE_KINDS.map(({ option, label }) => (
                <option value={option} selected={option === kind}>{label[on.lang]}</option>
              ))}
            </select>
          </label>
          <label>
            {t(on, "jobs.when")}
            <input name="value" value={value} maxlength={LONGEST} data-when="" autocomplete="off" spellcheck={false} />
          </label>
          <label>
            {t(on, "jobs.timezone")}
            <input name="timezone" value={timezone} list="zones" data-when="" autocomplete="off" spellcheck={false} />
            <datalist id="zones">{zones().map((one) => <option value={one} />)}</datalist>
          </label>
        </section>
        {NAMES.map((name) => <input type="hidden" name={wasName(name)} value={asTyped(schedule)[name]} />)}
        <section
          id="preview"
          aria-live="polite"
          hx-get={link(on, path)}
          hx-trigger='input from:"closest form" delay:250ms'
          hx-include="[data-when]"
          hx-select="#preview"
          hx-target="this"
          hx-swap="outerMorph"
          hx-sync="this:replace"
        >
          <h2>{t(on, "jobs.preview")}</h2>
          <Preview on={on} schedule={schedule} typed={typed} />
        </section>
      </>
    ),
  });
}

/** What is typed, checked as it would be when saved. */
function Preview({ on, schedule, typed }: { on: RequestContext; schedule: StoredSchedule; typed: Typed }) {
  const now = on.now.toTemporalInstant();
  const parsed = scheduleWith(schedule, { ...typedTime(typed.kind, typed.value), timezone: typed.timezone }, { now });
  if (!parsed.ok) {
    return <Problem title={t(on, "jobs.wrong")} text={complaintsText(on.lang, parsed.complaints)} />;
  }
  const { schedule_type, schedule_value, timezone } = parsed.schedule;
  const wanted = { ...schedule, schedule_type, schedule_value, timezone, job_name: on.params.name ?? "" };
  return <Fires on={on} schedule={wanted} />;
}

let known: string[] | undefined;

function zones(): string[] {
  return known ??= ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")];
}
