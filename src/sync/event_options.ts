/** What a job file says of events: the types that start it, and a rule for each type that has one. */
import type { DefinitionSetting, EventRule } from "../definitions/definition_rows.ts";
import { templateOf } from "./flow_options.ts";
import { isPlainObject, isText, Options } from "./option_reader.ts";
import { shown } from "../platform/shown.ts";
import type { Complaint } from "./problem.ts";

const KEYS = ["type", "where", "key", "debounceSeconds", "maxWaitSeconds", "throttleSeconds"];
const SECONDS = { least: 0.1, most: 604_800, default: 0 };

export function eventsOf(
  options: Options,
  complaints: Complaint[],
): Pick<DefinitionSetting, "event_types" | "event_rules"> {
  const given = options.raw("on");
  const list = given === undefined ? [] : Array.isArray(given) ? given : [given];
  const rules = new Map<string, EventRule>();
  list.forEach((one, place) => {
    const at = Array.isArray(given) ? `on[${place}].` : "on.";
    const [type, rule] = isPlainObject(one) ? triggerOf(new Options(one, complaints, at)) : [one, {}];
    if (!isText(type, 200)) {
      return options.complain(
        "on",
        `must be event types, texts of 1 to 200 characters: found ${shown(type)}`,
        'write on: "order.placed", on: { type: "order.placed", ... }, or a list of such',
      );
    }
    if (rules.has(type) && JSON.stringify(rules.get(type)) !== JSON.stringify(rule)) {
      return options.complain("on", `names ${shown(type)} twice, differently`, "say it once");
    }
    rules.set(type, rule);
  });
  const ruled = [...rules].filter(([, rule]) => Object.keys(rule).length > 0);
  return { event_types: [...rules.keys()].sort(), event_rules: Object.fromEntries(ruled) };
}

function triggerOf(one: Options): [unknown, EventRule] {
  one.onlyKnows(KEYS);
  const seconds = (key: string) => one.has(key) ? one.number(key, SECONDS) : undefined;
  const [debounce, max_wait, throttle] = ["debounceSeconds", "maxWaitSeconds", "throttleSeconds"].map(seconds);
  if (debounce !== undefined && throttle !== undefined) {
    one.complain(
      "throttleSeconds",
      "stands beside debounceSeconds",
      "choose one: throttle runs at the first event, debounce after the last",
    );
  }
  if (max_wait !== undefined && !(max_wait >= (debounce ?? Infinity))) {
    one.complain(
      "maxWaitSeconds",
      "needs a debounceSeconds that is no longer",
      "give debounceSeconds, or leave it out",
    );
  }
  const key = templateOf(one, "key");
  if (key !== null && debounce === undefined && throttle === undefined) {
    one.complain("key", "says nothing without debounceSeconds or throttleSeconds", "give one of them, or leave it out");
  }
  const where = whereOf(one);
  return [one.raw("type"), {
    ...(where === undefined ? {} : { where }),
    ...(key === null ? {} : { key }),
    ...(debounce === undefined ? {} : { debounce_seconds: debounce }),
    ...(max_wait === undefined ? {} : { max_wait_seconds: max_wait }),
    ...(throttle === undefined ? {} : { throttle_seconds: throttle }),
  }];
}

function whereOf(one: Options): EventRule["where"] {
  const where = one.raw("where");
  if (where === undefined) return undefined;
  const plain = (value: unknown) => value === null || ["string", "number", "boolean"].includes(typeof value);
  const fits = isPlainObject(where) &&
    Object.entries(where).every(([field, wanted]) =>
      isText(field, 200) && (Array.isArray(wanted) ? wanted.length > 0 && wanted.every(plain) : plain(wanted))
    );
  if (fits) return where as EventRule["where"];
  one.complain(
    "where",
    `must name fields of the payload and their values: found ${shown(where)}`,
    'write where: { platform: "ios", "device.level": [1, 2] }',
  );
}
