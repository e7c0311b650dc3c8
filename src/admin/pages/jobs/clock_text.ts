/** What a change of the clock does to a schedule, in the visitor's language; in English, the words of the catalog. */
import type { ClockWarning } from "../../../schedules/calendar.ts";
import type { Lang } from "../../../locale/locale.ts";

export function clockText(lang: Lang, warning: ClockWarning): string {
  if (lang === "en") return warning.message;
  const { kind, timezone, local_times: [first = ""], others, wall } = warning;
  const more = others === 0 ? "" : others === "more" ? "（ほか複数）" : `（ほか ${others} 件）`;
  const jump = `時計が ${wall.before.slice(11)} から ${wall.after.slice(11)} に${kind === "gap" ? "進む" : "戻る"}`;
  const what = kind === "gap" ? "存在しない" : " 2 回ある";
  return `${first}${more} は ${timezone} では${jump}ため${what}時刻です。${effect(warning)}`;
}

function effect({ kind, runs }: ClockWarning): string {
  const [run, other] = runs;
  if (!run) return "実行しません。";
  if (kind === "gap") return `代わりに ${run.local_time} に実行します（${run.at}）。`;
  return other ? `両方で実行します（${run.at} と ${other.at}）。` : `1 回だけ実行します（${run.at}）。`;
}
