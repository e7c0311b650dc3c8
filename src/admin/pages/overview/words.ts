/** Words of the overview. */
import { counted } from "../../../platform/text.ts";
import { words } from "../../words.ts";

export const OVERVIEW = words({
  overview: { en: "Overview", ja: "概要" },
  leader: { en: "Leader", ja: "リーダー" },
  no_leader: { en: "no leader", ja: "不在" },
  term: {
    en: (epoch: number, failovers: number) => `epoch ${epoch}, ${counted(failovers, "failover")}`,
    ja: (epoch, failovers) => `エポック ${epoch}・交代 ${failovers} 回`,
  },
  subleaders: { en: "Subleaders", ja: "サブリーダー" },
  no_subleader: {
    en: "none: after the loss of the leader, dispatch stops until its lease ends",
    ja: "なし（リーダー停止時はリース切れを待ちます）",
  },
  workers: { en: "Workers", ja: "ワーカー" },
  workers_other: {
    en: (draining: number, detached: number) => `${draining} draining, ${detached} detached`,
    ja: (draining, detached) => `ドレイン ${draining}・切り離し ${detached}`,
  },
  nodes_away: { en: (n: number) => `${counted(n, "node")} unreachable`, ja: (n) => `不通ノード ${n}` },
  nodes_locked: { en: (n: number) => `${counted(n, "node")} in maintenance`, ja: (n) => `メンテナンス中 ${n}` },
  stopped: {
    en: (jobs: number, keys: number) =>
      `paused: ${
        [jobs > 0 && counted(jobs, "job"), keys > 0 && counted(keys, "serial key")].filter(Boolean).join(", ")
      }`,
    ja: (jobs, keys) =>
      `停止中：${[jobs > 0 && `ジョブ ${jobs}`, keys > 0 && `直列キー ${keys}`].filter(Boolean).join("・")}`,
  },
  bulks_paused: { en: (n: number) => `${counted(n, "bulk")} paused`, ja: (n) => `一括 ${n} 件停止中` },
  slots: { en: "Slots in use", ja: "使用中スロット" },
  of: { en: (used: number, all: number) => `${used} of ${all}`, ja: (used, all) => `${used} / ${all}` },
  backlog: { en: "Waiting", ja: "待ち" },
  oldest: { en: (text: string) => `the oldest for ${text}`, ja: (text) => `最長 ${text}` },
  ended: { en: "Ended", ja: "終了" },
  per_minute: { en: (n: string) => `${n} a minute`, ja: (n) => `毎分 ${n}` },
  success: { en: "Success", ja: "成功率" },
  failures: { en: (n: number) => `${n} failed or timed out`, ja: (n) => `失敗・時間切れ ${n}` },
  wait: { en: "Waiting time", ja: "待ち時間" },
  ran: { en: "Running time", ja: "実行時間" },
  p95: { en: (text: string) => `p50; p95 is ${text}`, ja: (text) => `p50（p95 は ${text}）` },
  within: { en: (name: string, range: string) => `${name}, ${range}`, ja: (name, range) => `${name}（${range}）` },
  none_yet: { en: "no run has ended", ja: "終了なし" },
  stale: {
    en: (text: string) => `The leader last updated the statistics ${text} ago; run figures are at least that old.`,
    ja: (text) => `リーダーの最後の集計は ${text}前です。実行の数値はそれ以前のものです。`,
  },
  not_counted: {
    en: "No statistics yet; run figures appear when there is a leader.",
    ja: "まだ集計されていません。リーダーが決まると実行の数値が表示されます。",
  },

  range: { en: "Range", ja: "期間" },
  "1h": { en: "1 hour", ja: "1 時間" },
  "24h": { en: "24 hours", ja: "24 時間" },
  "7d": { en: "7 days", ja: "7 日" },
  as_table: { en: "As a table", ja: "表で見る" },
  as_plots: { en: "As plots", ja: "グラフで見る" },
  no_script: {
    en: "Plots need JavaScript; the table does not.",
    ja: "グラフには JavaScript が必要です。表はそのまま見られます。",
  },
  at: { en: "From", ja: "開始" },
  throughput: { en: "Ended a minute", ja: "毎分の終了数" },
  wait_plot: { en: "Waiting time, seconds", ja: "待ち時間（秒）" },
  run_plot: { en: "Running time, seconds", ja: "実行時間（秒）" },
  error_plot: { en: "Failed or timed out, %", ja: "失敗・時間切れ（%）" },
  backlog_plot: { en: "Waiting runs", ja: "待ち件数" },
  use_plot: { en: "Slots in use, %", ja: "スロット使用率（%）" },
  succeeded: { en: "succeeded", ja: "成功" },
  failed: { en: "failed", ja: "失敗" },
  other: { en: "canceled, skipped", ja: "取消・スキップ" },
  error_rate: { en: "failed", ja: "失敗" },
  waiting: { en: "waiting", ja: "待ち" },
  use: { en: "in use", ja: "使用" },

  alerts: { en: "Alerts", ja: "アラート" },
  alerts_open: {
    en: (n: number, more: boolean) => n === 1 ? "1 alert" : `${n}${more ? "+" : ""} alerts`,
    ja: (n, more) => `アラート ${n}${more ? "+" : ""} 件`,
  },
  alerts_none: { en: "No open alerts", ja: "アラートはありません" },
  kind: { en: "Kind", ja: "種類" },
  about: { en: "About", ja: "対象" },
  what: { en: "Message", ja: "内容" },
  since: { en: "Since", ja: "発生" },
  seen_by: { en: (who: string) => `seen by ${who}`, ja: (who) => `${who} が確認済み` },

  by_priority: { en: "Waiting by priority", ja: "優先度別の待ち" },
  priority: { en: "Priority", ja: "優先度" },
  age: { en: "Oldest", ja: "最長" },
  nothing_waits: { en: "No runs are waiting.", ja: "待ちはありません。" },
  nodes: { en: "Nodes", ja: "ノード" },
  node: { en: "Node", ja: "ノード" },
  no_nodes: { en: "No worker is alive.", ja: "稼働中のワーカーはありません。" },
  jobs: { en: "Jobs by failures", ja: "失敗の多いジョブ" },
  job: { en: "Job", ja: "ジョブ" },

  first: { en: "Nothing has run here yet", ja: "まだ何も実行されていません" },
  first_lead: { en: "Set up in three steps, and try it in a fourth:", ja: "次の手順で始めます:" },
  first_worker: {
    en: "Start a worker; the first one becomes the leader",
    ja: "ワーカーを起動（最初の 1 台がリーダーになります）",
  },
  first_job: { en: "Write a job file", ja: "ジョブファイルを作成" },
  first_sync: { en: "Sync it to register the job", ja: "同期して登録" },
  first_run: { en: "Run it, here or on the command line", ja: "実行（この画面またはコマンドから）" },
  done: { en: "done", ja: "済" },
});
