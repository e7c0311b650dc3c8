/** Words of the pages about bulks. */
import { words } from "../../words.ts";

export const BULKS = words({
  bulks: { en: "Bulks", ja: "一括" },
  bulk: { en: (id: number) => `Bulk ${id}`, ja: (id) => `一括 ${id}` },
  of_job: { en: "of job", ja: "ジョブ" },
  none: {
    en: "No bulks yet. A bulk runs one job for many items, a few at a time.",
    ja: "まだ一括実行がありません。一括実行は、一つのジョブを多数の項目に対して少しずつ実行します。",
  },
  none_match: { en: "No bulk matches these conditions.", ja: "条件に合う一括実行はありません。" },
  none_hint: { en: "Start one:", ja: "開始するには:" },

  id: { en: "Bulk", ja: "番号" },
  job: { en: "Job", ja: "ジョブ" },
  name: { en: "Name", ja: "名前" },
  state: { en: "State", ja: "状態" },
  open: { en: "Which", ja: "対象" },
  open_only: { en: "only those that have not ended", ja: "終わっていないもののみ" },
  progress: { en: "Ended", ja: "進捗" },
  failed: { en: "Failed", ja: "失敗" },
  at_once: { en: "At once", ja: "並列" },
  per_minute: { en: "Per minute", ja: "毎分" },
  done: { en: "Done", ja: "完了" },
  created: { en: "Created", ja: "作成" },
  unknown: { en: "not known yet", ja: "まだ不明" },

  ended_of: {
    en: (ended: string, items: string, share: string) => `${ended} of ${items} ended (${share})`,
    ja: (ended, items, share) => `${items} 件中 ${ended} 件終了（${share}）`,
  },
  rate_now: { en: "Rate now", ja: "現在の速度" },
  rate_now_text: { en: (n: string) => `${n} per minute`, ja: (n) => `毎分 ${n} 件` },
  rate_now_hint: { en: "from runs that ended in the last 10 s", ja: "直近 10 秒の終了数から" },
  rate_last: { en: (n: string) => `${n} per minute over the last 100`, ja: (n) => `直近 100 件では毎分 ${n} 件` },
  running_now: { en: "Running", ja: "実行中" },
  running_of: { en: (limit: number) => `of at most ${limit} at once`, ja: (limit) => `同時に最大 ${limit} 件` },
  throttled: {
    en: (to: number, of: number) => `throttled to ${to} of ${of}, because too many runs fail`,
    ja: (to, of) => `失敗が多いため ${of} から ${to} に抑制中`,
  },
  eta: { en: "Forecast end", ja: "完了見込み" },
  eta_hint: {
    en: "from the durations of the last 100 runs (first to third quartile)",
    ja: "直近 100 件の所要時間から（速い 1/4 〜 遅い 1/4）",
  },
  took: { en: "Duration of a run", ja: "1 件の所要" },
  took_hint: {
    en: (from: string, to: string) => `half of the runs: ${from} to ${to}`,
    ja: (from, to) => `半数は ${from} 〜 ${to}`,
  },
  pace: { en: "Runs ended in the last 5 minutes", ja: "直近 5 分間の終了数" },
  pace_label: {
    en: (most: number) => `Runs ended in the last 5 minutes, per 5 seconds; at most ${most}. Red: failed.`,
    ja: (most) => `直近 5 分間の終了数（5 秒ごと、最大 ${most}）。赤は失敗。`,
  },
  unfed: { en: "not started yet", ja: "未投入" },

  controls: { en: "Pace", ja: "速度の調整" },
  controls_hint: {
    en: "Changes apply at once, also to waiting runs.",
    ja: "変更はすぐに、待機中の実行にも反映されます。",
  },
  parallel: { en: "Parallel: runs at once", ja: "並列数" },
  interval: { en: "Interval: seconds between batches", ja: "間隔（秒）" },
  priority: { en: "Priority: 0 is first, 999 last", ja: "優先度（0 が最優先、999 が最後）" },
  slider: { en: (what: string) => `${what} (slider)`, ja: (what) => `${what}（スライダー）` },
  set: { en: "Set", ja: "設定" },
  what_if: {
    en: (parallel: number, now: number, then: string, band: string) =>
      `At ${parallel} instead of ${now}: done ${then} instead of ${band}`,
    ja: (parallel, now, then, band) => `${now} でなく ${parallel} なら: ${then} に完了（現在の見込み ${band}）`,
  },
  what_if_slots: {
    en: (slots: number) =>
      `Slots, limits and resources allow at most ${slots} of its runs at once, so a higher value changes nothing.`,
    ja: (slots) =>
      `スロット・上限・リソースにより同時に実行できるのは ${slots} 件までなので、それより増やしても変わりません。`,
  },
  what_if_none: {
    en: "A forecast is possible after three of its runs have ended.",
    ja: "3 件終わると完了時刻を見積もれます。",
  },
  what_if_hint: {
    en: "Move a slider to see the effect here before it applies.",
    ja: "スライダーを動かすと、変更後の見込みがここに表示されます。",
  },

  pause: { en: "Pause", ja: "一時停止" },
  resume: { en: "Resume", ja: "再開" },
  cancel: { en: "Cancel", ja: "取り消す" },
  retry: { en: (n: string) => `Retry ${n} failed`, ja: (n) => `失敗 ${n} 件を再実行` },
  pause_title: { en: (id: number) => `Pause bulk ${id}?`, ja: (id) => `一括 ${id} を一時停止しますか？` },
  pause_text: {
    en: (running: number, left: string) =>
      `Its ${running} running runs go on. None of the ${left} remaining items starts until it is resumed.`,
    ja: (running, left) => `実行中の ${running} 件は続きます。残り ${left} 件は再開するまで始まりません。`,
  },
  resume_title: { en: (id: number) => `Resume bulk ${id}?`, ja: (id) => `一括 ${id} を再開しますか？` },
  resume_text: {
    en: (left: string, parallel: number) =>
      `Its ${left} remaining items continue, at most ${parallel} at once. The failure count restarts at zero.`,
    ja: (left, parallel) => `残り ${left} 件を、同時に最大 ${parallel} 件で続けます。失敗数は数え直されます。`,
  },
  cancel_title: { en: (id: number) => `Cancel bulk ${id} for good?`, ja: (id) => `一括 ${id} を取り消しますか？` },
  cancel_text: {
    en: (running: number, left: string) =>
      `This cannot be undone: its ${running} running runs are stopped, and the ${left} remaining items get no result. Failed items can still be retried.`,
    ja: (running, left) =>
      `元に戻せません。実行中の ${running} 件を終了し、残り ${left} 件は実行されません。失敗した項目の再実行は可能です。`,
  },
  retry_title: {
    en: (id: number) => `Retry the failed items of bulk ${id}?`,
    ja: (id) => `一括 ${id} の失敗分を再実行しますか？`,
  },
  retry_text: {
    en: (n: string, job: string) =>
      `A new bulk of ${job} is created from the ${n} items whose run failed or timed out, with the same args and pace. Other items are not included.`,
    ja: (n, job) =>
      `失敗または時間切れの ${n} 件だけで、同じ引数と速度の新しい一括（${job}）を作成します。その他の項目は対象外です。`,
  },
  done_pause: { en: (id: number) => `Bulk ${id} is paused`, ja: (id) => `一括 ${id} を一時停止しました` },
  done_resume: { en: (id: number) => `Bulk ${id} is resumed`, ja: (id) => `一括 ${id} を再開しました` },
  done_cancel: {
    en: (id: number) => `Bulk ${id} is canceled; its running runs are being stopped`,
    ja: (id) => `一括 ${id} を取り消しました。実行中のものは終了処理中です`,
  },
  done_retry: {
    en: (id: number, items: number, of: number) =>
      `Bulk ${id} is created, with the ${items} failed items of bulk ${of}`,
    ja: (id, items, of) => `一括 ${of} で失敗した ${items} 件による新しい一括 ${id} です`,
  },
  retry_nothing: {
    en: (id: number) => `Bulk ${id}: no run failed, or the failed ones were already retried`,
    ja: (id) => `一括 ${id}: 失敗した実行がないか、すでに再実行されています`,
  },
  over: {
    en: (id: number) => `Bulk ${id} has ended or was canceled, so it can no longer be changed`,
    ja: (id) => `一括 ${id} はすでに終了または取り消し済みのため変更できません`,
  },

  failures: { en: "Why runs failed", ja: "失敗の理由" },
  error: { en: "Error", ja: "エラー" },
  runs: { en: "Runs", ja: "件数" },
  example: { en: "For example", ja: "例" },
  items: { en: "Items", ja: "項目" },
  items_of: { en: (id: number) => `Items of bulk ${id}`, ja: (id) => `一括 ${id} の項目` },
  all_items: { en: "All items", ja: "すべての項目" },
  all_runs: { en: "All its runs", ja: "すべての実行" },
  no_items: { en: "No items in this state.", ja: "この状態の項目はありません。" },
  item: { en: "Item", ja: "項目" },
  args: { en: "Args", ja: "引数" },
  run: { en: "Run", ja: "実行" },
  duration: { en: "Took", ja: "所要" },
  repeated_in: { en: "Retried in", ja: "再実行" },
  first: { en: "First", ja: "最初" },
  previous: { en: "Previous", ja: "前" },
  next: { en: "Next", ja: "次" },
  pages: { en: "Pages", ja: "ページ" },

  details: { en: "Details", ja: "詳細" },
  on_finish: { en: "At its end", ja: "終了時" },
  on_failure: { en: "After failures", ja: "失敗時" },
  at_end_run: { en: "run", ja: "実行" },
  retry_of: { en: "Retry of", ja: "元の一括" },
  retried_by: { en: "Failures retried by", ja: "失敗分の再実行" },
  max_failures: { en: "Paused above failures", ja: "失敗数の上限" },
  throttle_above: { en: "Throttled above", ja: "抑制する失敗率" },
  serial_key: { en: "Serial key", ja: "直列キー" },
  created_by: { en: "Created by", ja: "作成者" },
  changed_by: { en: "State set by", ja: "状態の変更者" },
  reason: { en: "Reason", ja: "理由" },
  started: { en: "Started", ja: "開始" },
  finished: { en: "Ended", ja: "終了" },

  start: { en: "Start a bulk", ja: "一括を開始" },
  start_title: { en: "Start a bulk of runs", ja: "一括実行の開始" },
  start_text: {
    en:
      "One item per line: JSON (an object with the args, or any value the job takes), or a CSV whose first line names the args.",
    ja: "1 行に 1 項目。JSON（引数のオブジェクトなど）、または 1 行目に引数名を書いた CSV。",
  },
  start_items: { en: "Items", ja: "項目" },
  start_done: { en: (items: number) => `Created, with ${items} items`, ja: (items) => `${items} 件で作成しました` },
  start_again: {
    en: "This form was already submitted: this is its bulk",
    ja: "この入力はすでに送信されています。これはその時の一括です",
  },
  start_empty: { en: "No items: give at least one line", ja: "項目がありません。1 行以上入力してください" },
});
