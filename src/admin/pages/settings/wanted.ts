/** A change of settings as it stands in a URL or a form: `NAME=value`, where an empty value or "default" means the default. */
import { NUMBER_SETTINGS, type SettingsChange, type SettingView } from "../../../settings/settings.ts";

export const DEFAULT = "default";

/** What of it differs from what is stored. A number that is none stays a text, which the store refuses in words. */
export function wantedChange(given: Iterable<[string, string]>, stored: SettingView[]): SettingsChange {
  const texts = new Map(given);
  const change = stored.flatMap((setting) => {
    const text = texts.get(setting.name)?.trim();
    if (text === undefined) return [];
    const value = valueOf(setting.name, text);
    if (value === null ? setting.updated_at === null : value === setting.value) return [];
    return [[setting.name, value]];
  });
  return Object.fromEntries(change);
}

function valueOf(name: string, text: string): number | string | null {
  if (text === "" || text === DEFAULT) return null;
  if (!Object.hasOwn(NUMBER_SETTINGS, name)) return text;
  const number = Number(text);
  return Number.isFinite(number) ? number : text;
}

/** As the URL of the page that asks for it once more. */
export function changeQuery(change: SettingsChange): Record<string, string> {
  return Object.fromEntries(Object.entries(change).map(([name, value]) => [name, String(value ?? DEFAULT)]));
}
