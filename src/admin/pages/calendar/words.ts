/** Words of the pages about the calendar. */
import { counted } from "../../../platform/text.ts";
import { words } from "../../words.ts";

export const CALENDAR = words({
  calendar: { en: "Calendar", ja: "カレンダー" },
  none: { en: "No job has a schedule.", ja: "スケジュールのあるジョブはありません。" },
  none_hint: { en: "Add one to a file in jobs/ and sync:", ja: "jobs/ のファイルに追加して同期してください:" },
  none_match: { en: "No schedule matches these conditions.", ja: "条件に合うスケジュールはありません。" },
  job: { en: "Job", ja: "ジョブ" },
  span: { en: "Span", ja: "期間" },
  day: { en: "a day", ja: "日" },
  week: { en: "a week", ja: "週" },
  date: { en: "From", ja: "開始日" },
  zone: { en: "Time zone", ja: "タイムゾーン" },
  yours: { en: (zone: string) => `${zone} (yours)`, ja: (zone) => `${zone}（あなたの設定）` },
  earlier: { en: "Earlier", ja: "前" },
  today: { en: "Today", ja: "今日" },
  later: { en: "Later", ja: "次" },
  moving: { en: "Dates", ja: "日付" },
  schedule: { en: "Schedule", ja: "スケジュール" },
  excluded: { en: "No slots on this day", ja: "この日は対象外" },
  paused: { en: (who: string) => `paused by ${who}`, ja: (who) => `${who} が一時停止中` },
  off: { en: "disabled", ja: "無効" },
  unreadable: { en: "this server cannot read the schedule", ja: "このスケジュールは読み取れません" },
  too_many: {
    en: "too many slots for this view: choose a day or only this job",
    ja: "枠が多すぎて表示できません。日表示またはこのジョブのみにしてください",
  },
  more_schedules: {
    en: (n: number) => `${counted(n, "more schedule")}: choose a job to see them.`,
    ja: (n) => `ほか ${n} 件のスケジュールがあります。ジョブを選んでください。`,
  },
  as_now: {
    en: "Past slots follow the current schedules; runs may have been deleted after their retention.",
    ja: "過去の枠は現在のスケジュール定義によります。保持期間を過ぎた実行は削除されている場合があります。",
  },
  legend: { en: "What the marks mean", ja: "記号の意味" },
  expected: { en: "expected", ja: "予定" },
  missed: { en: "no run: missed or skipped", ja: "実行なし（欠落または見送り）" },
  planning: { en: "due, no run yet", ja: "期限到来・未作成" },
  unknown: {
    en: "unknown: the job has too many runs, or the run was deleted by retention",
    ja: "不明（このジョブの実行が多すぎるか、古い実行が削除されました）",
  },
  before: { en: "before the job was synced", ja: "ジョブ登録前" },
  late: { en: "late", ja: "遅延" },
  late_by: { en: (by: string) => `late by ${by}`, ja: (by) => `${by} の遅れ` },
  repeated: { en: (id: number) => `retried as run ${id}`, ja: (id) => `実行 ${id} で再実行` },
  slots: { en: "Slots", ja: "枠" },
  slots_of: { en: (name: string) => `Slots of ${name}`, ja: (name) => `${name} の枠` },
  between: { en: (from: string, until: string) => `${from} – ${until}`, ja: (from, until) => `${from} 〜 ${until}` },
  no_slots: { en: "This schedule has no slots in this range.", ja: "この期間に枠はありません。" },
  only_first: { en: (n: number) => `Only the first ${n} are shown.`, ja: (n) => `最初の ${n} 件のみ表示しています。` },
  at: { en: "Slot", ja: "枠" },
  what: { en: "Outcome", ja: "結果" },
  run: { en: "Run", ja: "実行" },
  started: { en: "Started", ja: "開始" },
  took: { en: "Took", ja: "所要" },
  backfill: { en: (n: number) => `Backfill ${counted(n, "slot")}`, ja: (n) => `${n} 件を埋め合わせ` },
  backfill_title: {
    en: (n: number, name: string) => `Create ${counted(n, "run")} for ${name}?`,
    ja: (n, name) => `${name} の実行を ${n} 件作成しますか？`,
  },
  backfill_text: {
    en: (first: string, last: string) =>
      `One run for each slot without a run from ${first} to ${last}, oldest first, as a bulk that can be watched, paused and canceled. A slot that gets its run in the meantime is left out.`,
    ja: (first, last) =>
      `${first} から ${last} までの実行のない枠について、古い順に一括実行として作成します。監視・一時停止・取り消しができます。その間に実行ができた枠は除かれます。`,
  },
  backfill_skipped: { en: "also repeat slots whose run was SKIPPED", ja: "SKIPPED になった枠も再実行する" },
  parallel: { en: "Parallel: runs at once", ja: "並列数" },
  backfill_done: {
    en: (runs: number) => `${runs} runs are created as this bulk`,
    ja: (runs) => `${runs} 件の実行をこの一括として作成しました`,
  },
  backfill_nothing: {
    en: "Nothing to do: every slot now has its run",
    ja: "すべての枠に実行があるため、何もしていません",
  },
});
