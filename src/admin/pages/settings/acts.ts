/** Changing settings: what was typed is shown once more beside what holds, and then applied, all of it or nothing. */
import { Refused } from "../../../actions/args.ts";
import { setSettings } from "../../../actions/system_actions.ts";
import { listSettings } from "../../../settings/settings.ts";
import type { ActionContext, Done } from "../../request_context.ts";
import { changeQuery, wantedChange } from "./wanted.ts";
import { t } from "../../../locale/locale.ts";

export async function reviewSettings(on: ActionContext): Promise<Done> {
  const change = wantedChange(textsOf(on.form), await listSettings(on.sql));
  if (Object.keys(change).length === 0) return { to: "/settings", text: t(on, "settings.nothing") };
  return { to: `/settings?${new URLSearchParams(changeQuery(change))}` };
}

export async function applySettings(on: ActionContext): Promise<Done> {
  const stored = await listSettings(on.sql);
  const change = wantedChange(textsOf(on.form), stored);
  const back = `/settings?${new URLSearchParams(changeQuery(change))}`;
  const moved = stored.find(({ name, value }) =>
    Object.hasOwn(change, name) && on.form.get(`was.${name}`) !== JSON.stringify(value)
  );
  if (moved) {
    return { to: back, tone: "bad", text: t(on, "settings.moved", { name: moved.name, who: moved.updated_by ?? "?" }) };
  }
  try {
    const changed = await on.perform(setSettings, { values: change });
    return {
      to: "/settings",
      text: changed.length > 0 ? t(on, "settings.done", { names: changed.sort().join(", ") }) : t(on, "settings.same"),
    };
  } catch (error) {
    // In Japanese the page that this leads to says what is wrong.
    if (error instanceof Refused) {
      return { to: back, tone: "bad", text: on.lang === "en" ? error.message : t(on, "settings.cannot") };
    }
    throw error;
  }
}

function textsOf(form: FormData): [string, string][] {
  return [...form].flatMap(([name, value]) => typeof value === "string" ? [[name, value] as [string, string]] : []);
}
