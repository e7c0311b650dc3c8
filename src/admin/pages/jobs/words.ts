/** Words of the pages about jobs. */
import { counted } from "../../../platform/text.ts";
import { words } from "../../words.ts";

export const JOBS = words({
  jobs: { en: "Jobs", ja: "ジョブ" },
  none: { en: "No job is synced yet.", ja: "まだジョブが同期されていません。" },
  none_hint: { en: "Write a file and sync it:", ja: "ファイルを作成して同期してください:" },
  none_match: { en: "No job matches these conditions.", ja: "条件に合うジョブはありません。" },
  search: { en: "Name or description", ja: "名前・説明" },
  type: { en: "Trigger", ja: "起動方法" },
  state: { en: "State", ja: "状態" },
  job: { en: "Job", ja: "ジョブ" },
  next: { en: "Next", ja: "次回" },
  last: { en: "Last run", ja: "前回" },
  rate: { en: "Success, 24 h", ja: "成功率 24 時間" },
  rate_of: { en: (good: number, all: number) => `${good} of ${all}`, ja: (good, all) => `${all} 件中 ${good} 件` },
  waiting: { en: "Waiting", ja: "待ち" },
  running: { en: "Running", ja: "実行中" },

  time: { en: "schedule", ja: "スケジュール" },
  event: { en: "event", ja: "イベント" },
  demand: { en: "on demand", ja: "手動" },
  paused: { en: "paused", ja: "一時停止" },
  paused_partly: {
    en: (paused: number, all: number) => `${paused} of ${all} schedules paused`,
    ja: (paused, all) => `スケジュール ${all} 件中 ${paused} 件停止`,
  },
  off: { en: "off", ja: "無効" },
  removed: { en: "removed", ja: "削除済み" },
  failed_last: { en: "last run failed", ja: "前回失敗" },
  busy: { en: "waiting or running", ja: "待ち・実行中" },
  overridden: { en: "overridden", ja: "ファイルと異なる設定" },
  overrides: { en: (n: number) => `${counted(n, "override")}`, ja: (n) => `上書き ${n} 件` },
  unsafe: { en: "unsafe", ja: "unsafe" },
  unsafe_what: {
    en: "It may start programs or load native code, so it can do anything that the worker's user can do.",
    ja: "プログラムやネイティブコードを実行できます。ワーカーのユーザーにできることはすべて可能です。",
  },

  file: { en: "File", ja: "ファイル" },
  details: { en: "Details", ja: "詳細" },
  events: { en: "Events", ja: "イベント" },
  digest: { en: "Digest", ja: "ダイジェスト" },
  synced: { en: "Synced", ja: "同期" },
  synced_by: {
    en: (who: string, machine: string) => `by ${who} on ${machine}`,
    ja: (who: string, machine: string) => `${who} が ${machine} から実行`,
  },
  synced_dirty: { en: "with uncommitted changes", ja: "（コミットされていない変更を含む）" },
  permissions: { en: "Permissions", ja: "権限" },
  permissions_none: { en: "None: it can only compute and log.", ja: "なし（計算とログ出力のみ）" },
  anything: { en: "anything", ja: "すべて" },
  schema: { en: "Args schema", ja: "引数のスキーマ" },
  paused_by: { en: (who: string) => `Paused by ${who}`, ja: (who) => `${who} が一時停止中` },
  paused_text: {
    en: "Its runs wait. The misfire rule handles the slots missed meanwhile.",
    ja: "実行は待機し、過ぎた予定は misfire の規則に従います。",
  },
  removed_text: {
    en: "Its file is no longer in jobs/. Its history stays here.",
    ja: "ファイルは jobs/ から削除されました。履歴は残っています。",
  },
  off_text: {
    en: "Disabled by an override: schedules and events start no runs.",
    ja: "無効に設定されています。スケジュールもイベントも受け付けません。",
  },

  options: { en: "Options", ja: "オプション" },
  option: { en: "Option", ja: "オプション" },
  value: { en: "Value", ja: "現在の値" },
  file_says: { en: "In the file", ja: "ファイルの値" },
  set_at: { en: "Since", ja: "設定日時" },
  set_by: { en: "Set by", ja: "設定者" },
  reason: { en: "Reason", ja: "理由" },
  same: { en: "the same", ja: "同じ" },
  gone: { en: "schedule no longer exists", ja: "スケジュールは削除済み" },
  nothing_set: { en: "none", ja: "なし" },
  change: { en: "Change options", ja: "オプションを変更" },
  change_lead: {
    en: "An override wins over the file, across syncs, until it is reset. An empty box means none.",
    ja: "ここで設定した値は、ファイルを同期し直してもリセットするまで有効です。空欄は「なし」です。",
  },
  save: { en: "Save", ja: "保存" },
  moved: {
    en: (now: string) =>
      `Changed by somebody else since this form was opened: ${now}. Nothing was saved. Save again to apply your values anyway.`,
    ja: (now) =>
      `フォームを開いた後に変更されています：${now}。何も設定していません。入力した値にするには、もう一度保存してください。`,
  },
  moved_one: {
    en: (name: string, value: string, who?: string) => `${name} is now ${value}${who ? ` (${who})` : ""}`,
    ja: (name, value, who) => `${name} は現在 ${value}${who ? `（${who}）` : ""}`,
  },
  cannot_set: { en: "Nothing was changed", ja: "変更できませんでした" },
  set_done: {
    en: (names: string) => `Overridden until reset: ${names}`,
    ja: (names) => `リセットするまで有効です: ${names}`,
  },
  set_nothing: { en: "Nothing changed: these values are already set", ja: "すでにその設定です。変更はありません" },
  reset: { en: "Reset", ja: "リセット" },
  reset_title: { en: (name: string) => `Reset ${name}?`, ja: (name) => `${name} をリセットしますか？` },
  reset_text: {
    en: (value: string, file: string) => `The value changes from ${value} back to ${file}, as in the file.`,
    ja: (value, file) => `${value} からファイルの値 ${file} に戻ります。`,
  },
  reset_done: {
    en: (name: string) => `${name} is back to the value in the file`,
    ja: (name) => `${name} をファイルの値に戻しました`,
  },

  fires: { en: "Next slots", ja: "次回以降の予定" },
  fires_none: { en: "No upcoming slots.", ja: "予定はありません。" },
  fires_stopped: {
    en: "No run starts at these times while the schedule is stopped.",
    ja: "停止している間は起動しません。",
  },
  starts_at: { en: (at: string) => `starts ${at}`, ja: (at) => `開始 ${at}` },
  unreadable: { en: "This server cannot read the schedule", ja: "このサーバーでは解釈できません" },
  misfire: { en: "Missed slots", ja: "逃した予定" },
  exclude: { en: "Excluded days", ja: "除外日" },
  jitter: { en: "Jitter", ja: "ゆらぎ" },
  seconds: { en: (n: number) => `${n} s`, ja: (n) => `${n} 秒` },
  schedule_args: { en: "Args", ja: "引数" },
  clock: { en: "Daylight saving", ja: "時計の切り替わり" },
  edit: { en: "Edit", ja: "編集" },
  edit_title: { en: (id: string) => `Edit schedule ${id}`, ja: (id) => `スケジュール ${id} を編集` },
  edit_lead: {
    en: "Saved as an override until it is reset. Slots count from the moment of saving; past slots get no runs.",
    ja: "ファイルとは別に保存され、リセットするまで有効です。保存した時点から数え、過去の分は起動しません。",
  },
  kind: { en: "Kind", ja: "種類" },
  when: { en: "When", ja: "時刻" },
  timezone: { en: "Time zone", ja: "タイムゾーン" },
  preview: { en: "Preview", ja: "プレビュー" },
  wrong: { en: "This is not a valid schedule", ja: "スケジュールとして使えません" },

  pause: { en: "Pause", ja: "一時停止" },
  resume: { en: "Resume", ja: "再開" },
  pause_title: { en: (name: string) => `Pause ${name}?`, ja: (name) => `${name} を一時停止しますか？` },
  pause_text: {
    en: (waiting: string) =>
      `No run of it starts until it is resumed; ${waiting} are waiting. Running bodies go on. On resume, the misfire rule handles the slots missed meanwhile.`,
    ja: (waiting) =>
      `再開するまで実行は始まりません（待ち ${waiting} 件）。実行中のものは続きます。過ぎた予定は misfire の規則に従います。`,
  },
  pause_schedule_text: {
    en: "It starts no runs until it is resumed. On resume, its misfire rule handles the slots missed meanwhile.",
    ja: "再開するまで起動しません。その間の予定は、再開時に misfire の規則で処理されます。",
  },
  resume_title: { en: (name: string) => `Resume ${name}?`, ja: (name) => `${name} を再開しますか？` },
  resume_text: {
    en: (waiting: string) => `Waiting runs may start at once: ${waiting}. The misfire rule handles the missed slots.`,
    ja: (waiting) =>
      `待っている ${waiting} 件がすぐに始まる可能性があります。過ぎた予定は misfire の規則で処理されます。`,
  },
  paused_done: { en: (name: string) => `${name} is paused`, ja: (name) => `${name} を一時停止しました` },
  resumed_done: { en: (name: string) => `${name} is resumed`, ja: (name) => `${name} を再開しました` },
  was_so: {
    en: (name: string) => `Nothing changed: ${name} is already in this state`,
    ja: (name) => `${name} はすでにその状態です`,
  },

  runs: { en: "Recent runs", ja: "最近の実行" },
  all_runs: { en: "All its runs", ja: "すべての実行" },
  no_runs: { en: "It has not run yet.", ja: "まだ実行されていません。" },
  run: { en: "Run", ja: "番号" },
  took: { en: "Took", ja: "所要" },
  due: { en: "Due", ja: "予定" },
  note: { en: "Status", ja: "状況" },

  run_now: { en: "Run now", ja: "今すぐ実行" },
  run_title: { en: (name: string) => `Run ${name}`, ja: (name) => `${name} を実行` },
  run_options: { en: "How it runs", ja: "実行方法" },
  priority: { en: "Priority", ja: "優先度" },
  priority_hint: {
    en: (standard: number) => `0 to 999, lower first, or a name; empty: the job's own, ${standard}`,
    ja: (standard) => `0〜999（小さいほど先）または名前。空欄はジョブの値 ${standard}`,
  },
  priority_wrong: {
    en: "Give a number from 0 to 999, or a name such as admin.high",
    ja: "0 から 999 の数、または admin.high のような名前で指定してください",
  },
  delay: { en: "Delay before start", ja: "開始までの待ち" },
  unit: { en: "Unit", ja: "単位" },
  delay_hint: { en: "Empty: as soon as a slot is free", ja: "空欄は空きがありしだい" },
  delay_wrong: { en: "Give a delay from 0 to one year", ja: "0 以上、1 年以内で指定してください" },
  node: { en: "Node", ja: "ノード" },
  node_hint: {
    en: (standard: string | null) =>
      `A name, or labels such as gpu=a100; empty: ${standard === null ? "any" : `as the job says, ${standard}`}`,
    ja: (standard) =>
      `名前、または gpu=a100 のようなラベル。空欄は${
        standard === null ? "どのノードでも可" : `ジョブの指定 ${standard}`
      }`,
  },
  s: { en: "seconds", ja: "秒" },
  m: { en: "minutes", ja: "分" },
  h: { en: "hours", ja: "時間" },
  d: { en: "days", ja: "日" },
  run_paused: {
    en: "This job is paused: the run waits until it is resumed.",
    ja: "ジョブは一時停止中です。再開するまで実行は待機します。",
  },
  run_wrong: {
    en: "Not started: see the errors below",
    ja: "開始できません。以下の項目を確認してください",
  },
  run_refused: { en: "Not started", ja: "開始できません" },
  not_drawn: {
    en: "The form cannot show these args; edit them as JSON",
    ja: "フォームで表せない値があります。JSON のまま編集してください",
  },
  run_done: { en: (id: number) => `Run ${id} is created`, ja: (id) => `実行 ${id} を登録しました` },
  run_again: {
    en: (id: number) => `This form was already submitted: its run is ${id}`,
    ja: (id) => `送信済みです。実行は ${id} です`,
  },
});

/** What each option does, in a line below its box. */
export const OPTION_HINTS = words({
  enabled: {
    en: "false: schedules and events start no runs",
    ja: "false にすると、スケジュールやイベントで実行を作りません",
  },
  priority: {
    en: "0 to 999, lower first; or a name such as admin.high",
    ja: "0〜999（小さいほど先）、または admin.high などの名前",
  },
  timeoutSeconds: { en: "Seconds until a body is killed", ja: "これより長くかかる本体は強制終了します（秒）" },
  "retry.max": { en: "Number of retries of a failed run", ja: "失敗した実行を再試行する回数" },
  "retry.backoffSeconds": {
    en: "Seconds before the first retry; later pauses are longer",
    ja: "最初の再試行までの秒数（以後は長くなります）",
  },
  concurrency: {
    en:
      "What happens to a new run while another is active: allow (run both), forbid (skip the new one), replace (cancel the other), queueOne (keep one waiting)",
    ja:
      "他の実行が動いているとき：allow 並行、forbid 新しい方を見送り、replace 古い方を取り消し、queueOne 1 件だけ待たせる",
  },
  "concurrency.limit": { en: "Maximum number of its runs at once", ja: "同時に実行できる件数" },
  rate: {
    en: "Starts per seconds, such as 60/1 for 60 starts a second",
    ja: "件数/秒数（例 60/1 は 1 秒に 60 件まで開始）",
  },
  node: { en: "A node's name, or labels such as gpu=a100", ja: "ノード名、または gpu=a100 のようなラベル" },
});
