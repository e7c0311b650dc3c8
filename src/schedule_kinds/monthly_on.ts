/**
 * `monthlyOn: { day: "last", at: "02:30" }`: once a month. Stored, typed and shown as a text: "31 02:30", "31 or last 02:30",
 * "last 02:30", "2 tue 02:30", "last fri 02:30".
 */
import type { Json, MonthlyTime } from "../job.ts";
import { shown, wordLike } from "../platform/shown.ts";
import { defineKind, type ParsedValue } from "./kind.ts";
import { isTimeOfDay, millisecondsOf, timeOfDay } from "./time_of_day.ts";
import { DAY_MS, type WallPattern } from "./wall_pattern.ts";

const WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"] as const;
const WEEKDAYS_EN = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const WEEKDAYS_JA = [..."日月火水木金土"];
const STORED = /^(?:(\d{1,2})( or last)?|last|([1-5]|last) (sun|mon|tue|wed|thu|fri|sat)) (\d\d:\d\d)$/;
/** The longest row of months without the day: a fifth weekday is never further away than this. */
const MONTHS_AHEAD = 12;
const ORDINALS = ["", "first", "second", "third", "fourth", "fifth"];

export const monthlyOn = defineKind({
  option: "monthlyOn",
  type: "monthly_on",
  parse,
  written: (stored) => ruleOf(stored) as unknown as Json,
  typed(text) {
    const plain = text.trim().toLowerCase().replace(/\s+/g, " ");
    if (STORED.test(plain)) return ruleOf(plain) as unknown as Json;
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  },
  times: monthlyPattern,
  text: { en: textEn, ja: textJa },
  label: {
    en: 'each month: "15 02:30", "last 02:30", "31 or last 02:30", "2 tue 02:30", "last fri 02:30"',
    ja:
      "毎月（例 15 02:30、last 02:30（月末）、31 or last 02:30（なければ月末）、2 tue 02:30（第 2 火曜）、last fri 02:30）",
  },
  flag: {
    value: "when",
    help: 'such as "15 02:30", "last 02:30", "31 or last 02:30", "2 tue 02:30", "last fri 02:30"',
  },
  query: { longest: 100, example: "last 02:30" },
  caution(stored) {
    const missing = missingText(ruleOf(stored));
    return missing && `monthlyOn ${shown(stored)}: ${missing} it does not run`;
  },
});

function parse(value: unknown): ParsedValue {
  const wrong = wrongWith(value);
  if (wrong) return { ...wrong, says: { code: "day_of_month" } };
  const { day, at, ifMissing } = value as MonthlyTime;
  const time = timeOfDay(at);
  if ("reason" in time) return { ...time, reason: `has a wrong time: at ${time.reason}` };
  const date = typeof day === "object"
    ? `${day.nth} ${day.weekday}`
    : typeof day === "number" && day > 28 && ifMissing === "last"
    ? `${day} or last`
    : day;
  return { value: `${date} ${at}` };
}

const KEYS = ["day", "at", "ifMissing"];
const EXAMPLE = 'write it as { day: 15, at: "02:30" }, { day: "last", at: "02:30" } or ' +
  '{ day: { nth: 2, weekday: "tue" }, at: "02:30" }';

/** All but the time. */
function wrongWith(value: unknown): { reason: string; fix: string } | undefined {
  if (!isObject(value)) return { reason: `must be an object, not ${shown(value)}`, fix: EXAMPLE };
  const { day, ifMissing } = value;
  const unknown = Object.keys(value).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) return unknownKey(unknown, KEYS);
  if (ifMissing !== undefined && ifMissing !== "skip" && ifMissing !== "last") {
    const reason = `has a wrong ifMissing, which must be "skip" or "last": current value is ${shown(ifMissing)}`;
    return { reason, fix: 'use one of them, or leave it out for "skip"' };
  }
  if (isObject(day)) {
    if (ifMissing === "last") {
      const reason = 'has an ifMissing "last", which is for days that are numbers';
      return { reason, fix: 'leave it out, or give { nth: "last" }' };
    }
    return wrongWithWeekday(day);
  }
  if (day === "last" || (Number.isInteger(day) && (day as number) >= 1 && (day as number) <= 31)) return undefined;
  const like = typeof day === "string" && day !== "last" ? wordLike(day, ["last"]) : undefined;
  const reason = `has a wrong day, which must be 1 to 31, "last" or { nth, weekday }: current value is ${shown(day)}`;
  return { reason, fix: like ? `did you mean "${like}"?` : EXAMPLE };
}

function wrongWithWeekday(day: Record<string, unknown>): { reason: string; fix: string } | undefined {
  const unknown = Object.keys(day).find((key) => key !== "nth" && key !== "weekday");
  if (unknown !== undefined) return unknownKey(unknown, ["nth", "weekday"]);
  const { nth, weekday } = day;
  if (nth !== "last" && !([1, 2, 3, 4, 5] as unknown[]).includes(nth)) {
    const reason = `has a wrong nth, which must be 1 to 5 or "last": current value is ${shown(nth)}`;
    return { reason, fix: 'write it as { nth: 2, weekday: "tue" } or { nth: "last", weekday: "fri" }' };
  }
  if ((WEEKDAYS as readonly unknown[]).includes(weekday)) return undefined;
  const word = typeof weekday === "string" ? weekday.toLowerCase() : "";
  const like = WEEKDAYS.find((known) => word.startsWith(known)) ?? wordLike(word, WEEKDAYS);
  return {
    reason: `has a wrong weekday, which must be one of ${WEEKDAYS.join(", ")}: current value is ${shown(weekday)}`,
    fix: like ? `did you mean "${like}"?` : "use one of them",
  };
}

function unknownKey(key: string, known: readonly string[]): { reason: string; fix: string } {
  const like = wordLike(key, known);
  return {
    reason: `has an option ${shown(key)} that is not known here`,
    fix: like ? `did you mean ${like}?` : `remove it; known are ${known.join(", ")}`,
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Of a text that fits `STORED`; numbers and times that are none stay in it, for `parse` to refuse. */
function ruleOf(stored: string): MonthlyTime {
  const [, date, or_last, nth, weekday, at] = STORED.exec(stored) as unknown as string[];
  if (weekday) {
    const which = (nth === "last" ? "last" : Number(nth)) as 1;
    return { day: { nth: which, weekday: weekday as "sun" }, at: at as string };
  }
  const day = date === undefined ? "last" : Number(date);
  return { day, at: at as string, ...(or_last ? { ifMissing: "last" } : {}) };
}

function monthlyPattern(stored: string): WallPattern {
  const rule = ruleOf(stored);
  if (!isTimeOfDay(rule.at)) throw new RangeError(`${rule.at} is no time of day`);
  const time_ms = millisecondsOf(rule.at);
  return {
    next(wall_ms) {
      const from = new Date(wall_ms);
      for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead++) {
        const first_ms = Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + ahead, 1);
        const day = dayIn(rule, first_ms);
        const found_ms = first_ms + ((day ?? 0) - 1) * DAY_MS + time_ms;
        if (day !== null && found_ms > wall_ms) return found_ms;
      }
      return null;
    },
    time_of_day: true,
  };
}

/** Which day of a month, from 1; null: it has none. */
function dayIn({ day, ifMissing }: MonthlyTime, first_ms: number): number | null {
  const first = new Date(first_ms);
  const days = new Date(Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1, 0)).getUTCDate();
  if (day === "last") return days;
  if (typeof day === "number") return day <= days ? day : ifMissing === "last" ? days : null;
  const earliest = 1 + (WEEKDAYS.indexOf(day.weekday) - first.getUTCDay() + 7) % 7;
  if (day.nth === "last") return earliest + 7 * Math.floor((days - earliest) / 7);
  const wanted = earliest + 7 * (day.nth - 1);
  return wanted <= days ? wanted : null;
}

/** "in months of less than 31 days", "in February, but for leap years, "; undefined: each month has such a day. */
function missingText({ day, ifMissing }: MonthlyTime): string | undefined {
  if (typeof day === "object") {
    return day.nth === 5 ? "in months with four of that weekday" : undefined;
  }
  if (typeof day !== "number" || day <= 28 || ifMissing === "last") return undefined;
  const which =
    { 29: "in February, but for leap years,", 30: "in February", 31: "in months of less than 31 days" }[day];
  return which;
}

function textEn(stored: string): string {
  const { day, at, ifMissing } = ruleOf(stored);
  if (day === "last") return `monthly on the last day at ${at}`;
  if (typeof day === "number") return `monthly on day ${day}${ifMissing === "last" ? " or the last" : ""} at ${at}`;
  const nth = day.nth === "last" ? "last" : ORDINALS[day.nth];
  return `monthly on the ${nth} ${WEEKDAYS_EN[WEEKDAYS.indexOf(day.weekday)]} at ${at}`;
}

function textJa(stored: string): string {
  const { day, at, ifMissing } = ruleOf(stored);
  if (day === "last") return `毎月末日 ${at}`;
  if (typeof day === "number") return `毎月 ${day} 日${ifMissing === "last" ? "（なければ末日）" : ""} ${at}`;
  const weekday = `${WEEKDAYS_JA[WEEKDAYS.indexOf(day.weekday)]}曜日`;
  return `毎月${day.nth === "last" ? `最終${weekday}` : `第 ${day.nth} ${weekday}`} ${at}`;
}
