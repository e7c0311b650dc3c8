/** The schema of `on`: the event types that start runs of a job, and a rule for each type that has one. */
import { z } from "zod";
import type { DefinitionSetting, EventRule } from "../definitions/definition_rows.ts";
import { isOneLine } from "../platform/text.ts";
import { isRecord, shown } from "../platform/shown.ts";
import { type Broken, number, rule, ruleOfAll, template, text, WEEK_SECONDS } from "./building.ts";
import type { Wrong } from "./complaint.ts";
import { known } from "./option_node.ts";

const notType = (value: unknown): Wrong => ({
  reason: `must be an event type, a text of 1 to 200 characters: found ${shown(value)}`,
  fix: 'write on: "order.placed", on: { type: "order.placed", ... }, or a list of such',
});
const type = known(text(200), { about: "The event type.", takes: "text", wrong: notType });

const seconds = (about: string) => known(number(0.1, WEEK_SECONDS), { about }).optional();

const plain = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const field = z.string().min(1).max(200).refine((name) => isOneLine(name));

const trigger = z.strictObject({
  type,
  where: known(z.record(field, z.union([plain, z.array(plain).min(1)])), {
    about: "Only events whose payload has these values; a list means any of them.",
    takes: "fields and values",
    whole: true,
    wrong: (value) => ({
      reason: `must name fields of the payload and their values: found ${shown(value)}`,
      fix: 'write where: { platform: "ios", "device.level": [1, 2] }',
    }),
  }).optional(),
  key: known(template(), { about: "Debounce and throttle count for each key by itself." }).optional(),
  debounceSeconds: seconds("One run, so long after the last event of the key."),
  maxWaitSeconds: seconds("The longest that a debounced run is put off after the first event."),
  throttleSeconds: seconds("One run at once, and none for further events within this time."),
}).check(ruleOfAll(unfit));

function unfit(given: Record<string, unknown>): Broken[] {
  const { key, debounceSeconds: debounce, maxWaitSeconds: max_wait, throttleSeconds: throttle } = given;
  const broken: Broken[] = [];
  if (debounce !== undefined && throttle !== undefined) {
    broken.push({
      path: ["throttleSeconds"],
      reason: "stands beside debounceSeconds",
      fix: "choose one: throttle runs at the first event, debounce after the last",
    });
  }
  if (typeof max_wait === "number" && !(max_wait >= (typeof debounce === "number" ? debounce : Infinity))) {
    broken.push({
      path: ["maxWaitSeconds"],
      reason: "needs a debounceSeconds that is no longer",
      fix: "give debounceSeconds, or leave it out",
    });
  }
  if (key !== undefined && debounce === undefined && throttle === undefined) {
    broken.push({
      path: ["key"],
      reason: "says nothing without debounceSeconds or throttleSeconds",
      fix: "give one of them, or leave it out",
    });
  }
  return broken;
}

const one = z.union([type, trigger]);
type Given = z.output<typeof one>;

/** The option `on` -> its columns. */
export const eventsSchema = known(
  z.union([type, trigger, z.array(one)]).default([]).check(rule(sameTwice)).transform(columnsOf),
  {
    about: "Event types that start a run; the payload becomes its args.",
    takes: "text, object, or a list of these",
    otherwise: "none",
    columns: ["event_types", "event_rules"],
  },
);

function sameTwice(given: Given | Given[]): Broken[] {
  const rules = new Map<string, string>();
  return [given].flat().flatMap((one) => {
    const { type, rule } = ruleOf(one);
    const said = JSON.stringify(rule);
    const before = rules.get(type) ?? said;
    rules.set(type, before);
    return before === said ? [] : [{ reason: `names ${shown(type)} twice, differently`, fix: "say it once" }];
  });
}

function columnsOf(given: Given | Given[]): Pick<DefinitionSetting, "event_types" | "event_rules"> {
  const rules = new Map([given].flat().map((one) => [ruleOf(one).type, ruleOf(one).rule]));
  const ruled = [...rules].filter(([, rule]) => Object.keys(rule).length > 0);
  return { event_types: [...rules.keys()].sort(), event_rules: Object.fromEntries(ruled) };
}

function ruleOf(given: Given): { type: string; rule: EventRule } {
  if (!isRecord(given)) return { type: given as string, rule: {} };
  const { type, where, key, debounceSeconds, maxWaitSeconds, throttleSeconds } = given as z.output<typeof trigger>;
  const rule: EventRule = {
    where,
    key,
    debounce_seconds: debounceSeconds,
    max_wait_seconds: maxWaitSeconds,
    throttle_seconds: throttleSeconds,
  };
  return { type, rule: Object.fromEntries(Object.entries(rule).filter(([, value]) => value !== undefined)) };
}
