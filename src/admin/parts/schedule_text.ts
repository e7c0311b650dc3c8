/** When a schedule comes, in a few words of the visitor's language. */
import { scheduleText } from "../../sync/plan.ts";
import { kindStored } from "../../schedule_kinds/kinds.ts";
import type { Misfire, ScheduleSetting, ScheduleSpec } from "../../definitions/definition_rows.ts";
import { type Lang, t } from "../../locale/locale.ts";

/** "daily at 02:30", without its zone. */
export function timesText(
  lang: Lang,
  { schedule_type, schedule_value }: Pick<ScheduleSpec, "schedule_type" | "schedule_value">,
): string {
  return kindStored(schedule_type).text[lang](schedule_value);
}

export function misfireText(lang: Lang, misfire: Misfire): string {
  return misfire.policy === "all"
    ? t({ lang }, "schedule.all", { within: misfire.within_seconds, max: misfire.max })
    : misfire.policy;
}

/** All that a sync shows of it, on one line. */
export function wholeSchedule(lang: Lang, schedule: ScheduleSetting): string {
  if (lang === "en") return scheduleText(schedule);
  const { schedule_type, schedule_value, timezone, misfire, dst_gap, dst_overlap, exclude, jitter_seconds, args_json } =
    schedule;
  return [
    `${timesText(lang, schedule)}${
      "every_ms" in kindStored(schedule_type).times(schedule_value) ? "" : ` ${timezone}`
    }`,
    `misfire ${misfireText(lang, misfire)}`,
    dst_gap !== "after" && `gap ${dst_gap}`,
    dst_overlap !== "first" && `overlap ${dst_overlap}`,
    exclude.length > 0 &&
    `除外日 ${exclude.slice(0, 5).join(" ")}${exclude.length > 5 ? ` ほか ${exclude.length - 5} 件` : ""}`,
    jitter_seconds > 0 && `ゆらぎ ${jitter_seconds} 秒`,
    Object.keys(args_json).length > 0 && `引数 ${JSON.stringify(args_json)}`,
  ].filter((part) => typeof part === "string").join("、");
}
