/** Words of the page about the queue. */
import { words } from "../../words.ts";

export const QUEUE = words({
  queue: { en: "Queue", ja: "キュー" },
  dispatch_running: { en: "Runs are dispatched.", ja: "実行は割り当てられています。" },
  jobs: { en: "Waiting and running, per job", ja: "ジョブごとの待ちと実行" },
  none: { en: "No runs are waiting or running.", ja: "待ちも実行もありません。" },
  job: { en: "Job", ja: "ジョブ" },
  priority: { en: "Priority", ja: "優先度" },
  waiting: { en: "Waiting", ja: "待ち" },
  running: { en: "Running", ja: "実行中" },
  oldest: { en: "Oldest due", ja: "最古の期限" },
  why: { en: "Why none starts", ja: "始まらない理由" },
  paused_by: {
    en: (who: string, why: string) => `paused by ${who}${why && `: ${why}`}`,
    ja: (who, why) => `${who} が一時停止${why && `：${why}`}`,
  },
  held: {
    en: (n: number) => `${n} behind their serial key or beyond a limit`,
    ja: (n) => `${n} 件は直列キーの順番待ち、または上限待ち`,
  },
  later: { en: (n: number) => `${n} not due yet`, ja: (n) => `${n} 件は開始時刻前` },
  keys: { en: "Paused serial keys", ja: "停止中の直列キー" },
  keys_none: { en: "No serial key is paused.", ja: "停止中の直列キーはありません。" },
  key: { en: "Serial key", ja: "直列キー" },
  since: { en: "Since", ja: "開始" },
  by: { en: "By", ja: "停止者" },
  reason: { en: "Reason", ja: "理由" },
  because_of: { en: "Run", ja: "原因の実行" },
  stop_a_key: { en: "Pause a serial key", ja: "直列キーの停止" },
  set_resource: { en: "Set a resource", ja: "リソースの設定" },
  stop_key: { en: "Pause…", ja: "停止…" },
  resources: { en: "Resources", ja: "リソース" },
  resources_none: {
    en: "No resources yet. A resource is a named quantity, such as licenses; jobs declare how much they need.",
    ja: "リソースはまだありません。ライセンスなど数に限りのあるものを登録し、ジョブが使用量を宣言します。",
  },
  resource: { en: "Resource", ja: "リソース" },
  capacity: { en: "Capacity", ja: "容量" },
  taken: { en: "In use", ja: "使用中" },
  set: { en: "Set", ja: "設定" },
  set_done: {
    en: (name: string, capacity: number) => `${name} now has capacity ${capacity}`,
    ja: (name, capacity) => `${name} の容量を ${capacity} にしました`,
  },
  set_same: {
    en: (name: string) => `Nothing changed: ${name} already has this capacity`,
    ja: (name) => `変更なし: ${name} はすでにその値です`,
  },
  set_bad: {
    en: "Give a name of 1 to 100 characters and a capacity",
    ja: "名前（1〜100 文字）と容量を入力してください",
  },
  remove: { en: "Remove", ja: "削除" },
  remove_title: {
    en: (name: string) => `Remove resource ${name}?`,
    ja: (name) => `リソース ${name} を削除しますか？`,
  },
  remove_text: {
    en: (taken: number) =>
      `${taken} are in use; those runs go on. Runs of jobs that need the resource wait until it is set again.`,
    ja: (taken) => `現在 ${taken} 使用中です（実行は続きます）。これを使うジョブの実行は、再登録まで待ちます。`,
  },
  remove_done: {
    en: (name: string) => `Resource ${name} is removed`,
    ja: (name) => `リソース ${name} を削除しました`,
  },

  pause: { en: "Pause", ja: "一時停止" },
  resume: { en: "Resume", ja: "再開" },
  unblock: { en: "Resume", ja: "解除" },
  pause_all: { en: "Pause all", ja: "すべて停止" },
  resume_all: { en: "Resume all", ja: "すべて再開" },
  ask_pause_all: { en: "Pause all dispatch?", ja: "すべての割り当てを停止しますか？" },
  ask_resume_all: { en: "Resume all dispatch?", ja: "すべての割り当てを再開しますか？" },
  ask_pause_job: { en: (name: string) => `Pause job ${name}?`, ja: (name) => `ジョブ ${name} を一時停止しますか？` },
  ask_resume_job: { en: (name: string) => `Resume job ${name}?`, ja: (name) => `ジョブ ${name} を再開しますか？` },
  ask_pause_key: { en: (key: string) => `Pause serial key ${key}?`, ja: (key) => `直列キー ${key} を停止しますか？` },
  ask_resume_key: {
    en: (key: string) => `Resume serial key ${key}?`,
    ja: (key) => `直列キー ${key} を解除しますか？`,
  },
  touches: {
    en: (waiting: string, running: string) =>
      `${waiting} runs are waiting and ${running} are running. Running ones go on in any case.`,
    ja: (waiting, running) => `現在 ${waiting} 件が待ち、${running} 件が実行中です。実行中のものは続きます。`,
  },
  touches_job_slots: {
    en: "On resume, the misfire rules of its schedules handle the slots missed meanwhile.",
    ja: "停止中に過ぎたスケジュールの枠は、再開時に misfire 規則で処理されます。",
  },
  done_paused: { en: (what: string) => `${what} is paused`, ja: (what) => `${what}を停止しました` },
  done_resumed: { en: (what: string) => `${what} is resumed`, ja: (what) => `${what}を再開しました` },
  done_same: {
    en: (what: string) => `Nothing changed: ${what} is already in this state`,
    ja: (what) => `変更なし：${what}はすでにその状態です`,
  },
  all_dispatch: { en: "All dispatch", ja: "すべての割り当て" },
  the_job: { en: (name: string) => `Job ${name}`, ja: (name) => `ジョブ ${name} ` },
  the_key: { en: (key: string) => `Serial key ${key}`, ja: (key) => `直列キー ${key} ` },
});
