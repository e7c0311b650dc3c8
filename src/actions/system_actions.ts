/** What is done to the system as a whole: settings, alerts, API tokens. */
import { z } from "zod";
import { ackAlert, requestTest } from "../alerts/alerts.ts";
import { addApiToken, MOST_TOKEN_DAYS, removeApiToken, SCOPES, TOKEN_NAME } from "../access/api_tokens.ts";
import { changeSettings, type SettingsChange } from "../settings/settings.ts";
import { action, rowId, text, whole } from "./action.ts";
import { Refused } from "./args.ts";

/** Gives the names of those that this changed. */
export const setSettings = action({
  name: "settings.set",
  does: "change some settings, all of them or none",
  needs: "admin",
  reason: "optional",
  input: z.strictObject({
    /** Which there are and what each may be, changeSettings says, and what does not go together. */
    values: z.record(z.string(), z.union([z.number(), z.string(), z.null()])).meta({
      description: "New values by name; null: back to the default",
      example: { run_retention_days: 30 },
    }),
  }),
  audit: ["settings.change", "settings.reset"],
  async run({ sql, by }, { values }) {
    try {
      return await changeSettings(sql, values as SettingsChange, by);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw new Refused(error.message, { says: { code: "settings_conflict", text: error.message } });
    }
  },
});

/** `acked` false: it is not open, or somebody has acknowledged it before. */
export const acknowledgeAlert = action({
  name: "alert.ack",
  does: "acknowledge an alert",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({ id: rowId }),
  audit: ["alert.ack"],
  run: async ({ sql, by }, { id }) => ({ acked: await ackAlert(sql, id, by) }),
});

/** Gives the delivery, to look how it went. */
export const testAlerts = action({
  name: "alert.test",
  does: "send a test message to the webhook of alerts",
  needs: "admin",
  reason: "optional",
  input: z.strictObject({}),
  audit: ["alert.test"],
  run: async ({ sql, by }) => ({ delivery_id: await requestTest(sql, by) }),
});

/** `added` false: the name is taken. */
export const addToken = action({
  name: "token.add",
  does: "make an API token",
  needs: "admin",
  reason: "optional",
  input: z.strictObject({
    name: z.string().regex(TOKEN_NAME, "must have lower case letters, digits and _ . -, at most 64"),
    token_digest: text(200).meta({ description: "never the token itself" }),
    scopes: z.array(z.enum(SCOPES)).min(1).meta({ description: "what it is good for" }),
    days: whole(1, MOST_TOKEN_DAYS).meta({ description: "for so long" }),
  }),
  audit: ["token.add"],
  run: async ({ sql, by }, token) => ({ added: await addApiToken(sql, token, by) }),
});

/** `removed` false: there is none of that name. */
export const removeToken = action({
  name: "token.remove",
  does: "remove an API token; requests with it are refused from then on",
  needs: "admin",
  reason: "optional",
  input: z.strictObject({ name: text(200) }),
  audit: ["token.remove"],
  run: async ({ sql, by }, { name }) => ({ removed: await removeApiToken(sql, name, by) }),
});
