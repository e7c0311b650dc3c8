/** Settings, each with its unit (the last part of its name), bounds and effect; a change holds within seconds, without a restart. */
import { CHOICES, isWhole, listSettings, NUMBER_SETTINGS } from "../../settings/settings.ts";
import { setSettings } from "../../actions/system_actions.ts";
import { type Api, bodyOf } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const Setting = z.object({
  name: z.string(),
  value: w.json,
  default: z.union([z.number(), z.string()]),
  least: z.number().nullable(),
  most: z.number().nullable(),
  choices: z.array(z.string()).nullable(),
  about: z.string(),
  updated_at: w.time.nullable().openapi({ description: "Null: it was never changed" }),
  updated_by: z.string().nullable(),
}).openapi("Setting");

const numbers = Object.fromEntries(
  Object.entries(NUMBER_SETTINGS).map(([name, { least, most, about, default: usual }]) => [
    name,
    (isWhole(name) ? z.int() : z.number()).min(least).max(most).nullable().optional().openapi({
      description: `${about}; default ${usual}, which null brings back`,
    }),
  ]),
);

const words = Object.fromEntries(
  Object.entries(CHOICES).map(([name, { choices, about }]) => [
    name,
    z.enum(choices).nullable().optional().openapi({ description: about }),
  ]),
);

const Change = z.strictObject({
  ...numbers,
  ...words,
}).refine((given) => Object.keys(given).length > 0, "must name at least one setting").openapi("SettingsChange");

const All = z.object({ items: z.array(Setting) });

export function addSettings(api: Api): void {
  api.route({
    needs: "read",
    route: "GET /settings",
    summary: "All settings, with bounds, defaults and who changed them",
    answers: { 200: { description: "All of them", schema: All } },
  }, async ({ sql }) => [200, { items: await listSettings(sql) }]);
  api.route({
    does: setSettings,
    route: "PATCH /settings",
    body: bodyOf(setSettings, { instead: { values: Change } }),
    answers: { 200: { description: "All settings as they are now", schema: All } },
  }, async ({ sql, perform, body: { values } }) => {
    await perform(setSettings, { values: values as Record<string, number | string | null> });
    return [200, { items: await listSettings(sql) }];
  });
}
