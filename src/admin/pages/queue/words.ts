/** Words of the page about the queue. */
import { words } from "../../words.ts";

export const QUEUE = words({
  queue: { en: "Queue", ja: "キュー" },
  dispatch_running: { en: "Runs are dispatched.", ja: "実行は割り当てられています。" },
  jobs: { en: "What waits and runs, job by job", ja: "ジョブごとの待ちと実行" },
  none: { en: "Nothing waits and nothing runs.", ja: "待ちも実行もありません。" },
  job: { en: "Job", ja: "ジョブ" },
  priority: { en: "Priority", ja: "優先度" },
  waiting: { en: "Waiting", ja: "待ち" },
  running: { en: "Running", ja: "実行中" },
  oldest: { en: "Oldest due", ja: "最古の期限" },
  why: { en: "Why nothing starts", ja: "始まらない理由" },
  paused_by: {
    en: (who: string, why: string) => `paused by ${who}${why && `: ${why}`}`,
    ja: (who, why) => `${who} が一時停止${why && `：${why}`}`,
  },
  held: {
    en: (n: number) => `${n} behind their serial key, or beyond their limit`,
    ja: (n) => `${n} 件は直列キーの順番待ち、または上限待ち`,
  },
  later: { en: (n: number) => `${n} not due yet`, ja: (n) => `${n} 件は開始時刻前` },
  keys: { en: "Stopped serial keys", ja: "停止中の直列キー" },
  keys_none: { en: "No serial key is stopped.", ja: "停止中の直列キーはありません。" },
  key: { en: "Serial key", ja: "直列キー" },
  since: { en: "Since", ja: "開始" },
  by: { en: "By", ja: "停止者" },
  reason: { en: "Reason", ja: "理由" },
  because_of: { en: "Run", ja: "原因の実行" },
  stop_a_key: { en: "Stop a serial key", ja: "直列キーの停止" },
  set_resource: { en: "Set a resource", ja: "リソースの設定" },
  stop_key: { en: "Stop it…", ja: "停止…" },
  resources: { en: "Resources", ja: "リソース" },
  resources_none: {
    en:
      "No resources yet. A resource is something of which there is only so much, such as licenses; jobs say what they take.",
    ja: "リソースはまだありません。ライセンスなど数に限りのあるものを登録し、ジョブが使用量を宣言します。",
  },
  resource: { en: "Resource", ja: "リソース" },
  capacity: { en: "Capacity", ja: "容量" },
  taken: { en: "Taken now", ja: "使用中" },
  set: { en: "Set", ja: "設定" },
  set_done: {
    en: (name: string, capacity: number) => `There are ${capacity} of ${name} now`,
    ja: (name, capacity) => `${name} の容量を ${capacity} にしました`,
  },
  set_same: {
    en: (name: string) => `Nothing was changed: ${name} was so already`,
    ja: (name) => `変更なし: ${name} はすでにその値です`,
  },
  set_bad: {
    en: "Give a name of 1 to 100 characters and a capacity",
    ja: "名前（1〜100 文字）と容量を入力してください",
  },
  remove: { en: "Take away", ja: "削除" },
  remove_title: {
    en: (name: string) => `Take resource ${name} away?`,
    ja: (name) => `リソース ${name} を削除しますか？`,
  },
  remove_text: {
    en: (taken: number) =>
      `${taken} of it are taken now; those runs go on. Runs of jobs that take it wait until it is there again.`,
    ja: (taken) => `現在 ${taken} 使用中です（実行は続きます）。これを使うジョブの実行は、再登録まで待ちます。`,
  },
  remove_done: {
    en: (name: string) => `Resource ${name} is taken away`,
    ja: (name) => `リソース ${name} を削除しました`,
  },

  pause: { en: "Pause", ja: "一時停止" },
  resume: { en: "Resume", ja: "再開" },
  unblock: { en: "Let go", ja: "解除" },
  pause_all: { en: "Pause all", ja: "すべて停止" },
  resume_all: { en: "Resume all", ja: "すべて再開" },
  ask_pause_all: { en: "Pause all dispatch?", ja: "すべての割り当てを停止しますか？" },
  ask_resume_all: { en: "Resume all dispatch?", ja: "すべての割り当てを再開しますか？" },
  ask_pause_job: { en: (name: string) => `Pause job ${name}?`, ja: (name) => `ジョブ ${name} を一時停止しますか？` },
  ask_resume_job: { en: (name: string) => `Resume job ${name}?`, ja: (name) => `ジョブ ${name} を再開しますか？` },
  ask_pause_key: { en: (key: string) => `Stop serial key ${key}?`, ja: (key) => `直列キー ${key} を停止しますか？` },
  ask_resume_key: {
    en: (key: string) => `Let serial key ${key} go on?`,
    ja: (key) => `直列キー ${key} を解除しますか？`,
  },
  touches: {
    en: (waiting: string, running: string) =>
      `${waiting} runs wait and ${running} run now. What runs goes on in any case.`,
    ja: (waiting, running) => `現在 ${waiting} 件が待ち、${running} 件が実行中です。実行中のものは続きます。`,
  },
  touches_job_slots: {
    en: "Slots of its schedules that pass meanwhile are dealt with by their misfire rule when it is resumed.",
    ja: "停止中に過ぎたスケジュールの枠は、再開時に misfire 規則で処理されます。",
  },
  done_paused: { en: (what: string) => `${what} is paused`, ja: (what) => `${what}を停止しました` },
  done_resumed: { en: (what: string) => `${what} goes on`, ja: (what) => `${what}を再開しました` },
  done_same: {
    en: (what: string) => `Nothing was changed: ${what} was so already`,
    ja: (what) => `変更なし：${what}はすでにその状態です`,
  },
  all_dispatch: { en: "All dispatch", ja: "すべての割り当て" },
  the_job: { en: (name: string) => `Job ${name}`, ja: (name) => `ジョブ ${name} ` },
  the_key: { en: (key: string) => `Serial key ${key}`, ja: (key) => `直列キー ${key} ` },
});
