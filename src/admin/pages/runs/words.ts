/** Words of the pages about runs. */
import { words } from "../../words.ts";

export const RUNS = words({
  runs: { en: "Runs", ja: "実行" },
  run: { en: (id: number) => `Run ${id}`, ja: (id) => `実行 ${id}` },
  of_job: { en: "of job", ja: "ジョブ" },
  none: { en: "No runs yet.", ja: "まだ実行がありません。" },
  none_hint: { en: "Start one:", ja: "開始するには:" },
  none_match: { en: "No run fits these conditions.", ja: "条件に合う実行はありません。" },

  id: { en: "Run", ja: "番号" },
  job: { en: "Job", ja: "ジョブ" },
  state: { en: "State", ja: "状態" },
  states: { en: "States", ja: "状態" },
  attempt: { en: "Attempt", ja: "試行" },
  due: { en: "Due", ja: "予定" },
  created: { en: "Created", ja: "作成" },
  took: { en: "Took", ja: "所要" },
  worker: { en: "Worker", ja: "ワーカー" },
  note: { en: "What happens", ja: "状況" },
  serial_key: { en: "Serial key", ja: "直列キー" },
  error_name: { en: "Error's name", ja: "エラー名" },
  node: { en: "Node it ran on", ja: "実行ノード" },
  bulk: { en: "Bulk", ja: "一括" },
  since: { en: "Created within", ja: "作成時期" },
  hour: { en: "the last hour", ja: "1 時間以内" },
  day: { en: "the last 24 hours", ja: "24 時間以内" },
  week: { en: "the last 7 days", ja: "7 日以内" },

  why: { en: "Why it waits", ja: "待っている理由" },
  asked: {
    en: (who: string) => `${who} asked for its cancel; it ends as soon as its body is gone`,
    ja: (who) => `${who} が取り消しを要求しました。本体が終わりしだい終了します`,
  },
  confirming: {
    en: "Its worker asks whether it may go on; until the deadline it is not given away",
    ja: "ワーカーが続行の可否を確認しています。期限までは他に割り当てません",
  },
  timeline: { en: "Timeline", ja: "経過" },
  assigned: { en: "Assigned", ja: "割当" },
  started: { en: "Started", ja: "開始" },
  finished: { en: "Finished", ja: "終了" },
  waited: { en: "waited", ja: "待ち" },
  ran: { en: "ran", ja: "実行" },
  attempts: { en: "Earlier attempts", ja: "以前の試行" },
  outcome: { en: "Outcome", ja: "結果" },
  error: { en: "Error", ja: "エラー" },
  log: { en: "Log", ja: "ログ" },
  log_none: { en: "It has said nothing yet.", ja: "まだ出力がありません。" },
  log_tail: { en: (n: number) => `the last ${n} lines`, ja: (n) => `最後の ${n} 行` },
  log_ref: { en: "Whole log", ja: "ログ全文" },
  args: { en: "Args", ja: "引数" },
  result: { en: "Result", ja: "結果" },
  details: { en: "Details", ja: "詳細" },
  source: { en: "Source", ja: "起動元" },
  priority: { en: "Priority", ja: "優先度" },
  progress: { en: "Progress", ja: "進捗" },
  exit_code: { en: "Exit code", ja: "終了コード" },
  failures: { en: "Failures", ja: "失敗回数" },
  interruptions: { en: "Interruptions", ja: "中断回数" },
  event: { en: "Event", ja: "イベント" },
  rerun_of: { en: "Repeats run", ja: "元の実行" },
  idempotency_key: { en: "Idempotency key", ja: "冪等キー" },
  pinned: { en: "Must run on", ja: "指定ノード" },
  epoch: { en: "Leader epoch", ja: "リーダー世代" },
  fence: { en: "Fence", ja: "フェンス" },

  cancel: { en: "Cancel", ja: "取り消す" },
  cancel_title: { en: (id: number) => `Cancel run ${id}?`, ja: (id) => `実行 ${id} を取り消しますか？` },
  cancel_text: {
    en: (job: string) =>
      `This run of ${job} ends as CANCELED. If its body runs, it is told to stop, and killed when it does not.`,
    ja: (job) =>
      `${job} のこの実行は CANCELED で終わります。本体が動いていれば停止を伝え、止まらなければ強制終了します。`,
  },
  cancel_done: {
    en: (id: number) => `Cancel of run ${id} is requested`,
    ja: (id) => `実行 ${id} の取り消しを要求しました`,
  },
  cancel_before: {
    en: (id: number) => `Cancel of run ${id} was requested before`,
    ja: (id) => `実行 ${id} の取り消しはすでに要求されています`,
  },
  cancel_late: {
    en: (id: number, state: string) => `Run ${id} had ended already, as ${state}`,
    ja: (id, state) => `実行 ${id} はすでに ${state} で終わっています`,
  },
  retry: { en: "Run again", ja: "再実行" },
  retry_title: { en: (id: number) => `Run ${id} again?`, ja: (id) => `実行 ${id} を再実行しますか？` },
  retry_text: {
    en: (job: string) => `A new run of ${job} is made, with the same args. This one stays as it is.`,
    ja: (job) => `${job} の新しい実行を同じ引数で作成します。この実行はそのまま残ります。`,
  },
  retry_done: {
    en: (id: number, of: number) => `This is run ${id}, with the args of run ${of}`,
    ja: (id, of) => `実行 ${of} の引数による新しい実行 ${id} です`,
  },
  retry_not: {
    en: (id: number) =>
      `Run ${id} cannot be run again now: it has not ended, its job was removed, or this form was sent before`,
    ja: (id) => `実行 ${id} は今は再実行できません。終わっていないか、ジョブが削除されたか、すでに送信されています`,
  },
});
