/** Words of the pages about runs. */
import { counted } from "../../../platform/text.ts";
import { words } from "../../words.ts";

export const RUNS = words({
  runs: { en: "Runs", ja: "実行" },
  run: { en: (id: number) => `Run ${id}`, ja: (id) => `実行 ${id}` },
  of_job: { en: "of job", ja: "ジョブ" },
  none: { en: "No runs yet.", ja: "まだ実行がありません。" },
  none_hint: { en: "Start one:", ja: "開始するには:" },
  none_so_far: {
    en: "No match among the runs searched so far.",
    ja: "ここまで調べた範囲に、条件に合う実行はありません。",
  },
  none_match: { en: "No run matches these conditions.", ja: "条件に合う実行はありません。" },

  id: { en: "Run", ja: "番号" },
  job: { en: "Job", ja: "ジョブ" },
  state: { en: "State", ja: "状態" },
  states: { en: "States", ja: "状態" },
  attempt: { en: "Attempt", ja: "試行" },
  due: { en: "Due", ja: "予定" },
  created: { en: "Created", ja: "作成" },
  took: { en: "Took", ja: "所要" },
  worker: { en: "Worker", ja: "ワーカー" },
  note: { en: "Status", ja: "状況" },
  serial_key: { en: "Serial key", ja: "直列キー" },
  error_name: { en: "Error name", ja: "エラー名" },
  node: { en: "Node it ran on", ja: "実行ノード" },
  bulk: { en: "Bulk", ja: "一括" },
  since: { en: "Created within", ja: "作成時期" },
  hour: { en: "the last hour", ja: "1 時間以内" },
  day: { en: "the last 24 hours", ja: "24 時間以内" },
  week: { en: "the last 7 days", ja: "7 日以内" },

  why: { en: "Why it waits", ja: "待っている理由" },
  asked: {
    en: (who: string) => `${who} requested the cancel; the run ends when its body has stopped`,
    ja: (who) => `${who} が取り消しを要求しました。本体が終わりしだい終了します`,
  },
  confirming: {
    en: "Its worker waits for confirmation; the run is not reassigned before the deadline",
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
  log_none: { en: "No log output.", ja: "出力はありません。" },
  log_tail: { en: (n: number) => `the last ${n} lines`, ja: (n) => `最後の ${n} 行` },
  log_archived: { en: "Older lines are read from the archive:", ja: "古い行はアーカイブから読んでいます：" },
  log_deleted: {
    en: (day: string) => `Its log lines were deleted on ${day} (settings log_retention_days_db and old_logs).`,
    ja: (day) => `設定 log_retention_days_db と old_logs により、${day} に行を削除しました。`,
  },
  log_unreadable: { en: "The archived log cannot be read", ja: "アーカイブのログを読み取れません" },
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
  rerun_of: { en: "Retry of run", ja: "元の実行" },
  idempotency_key: { en: "Idempotency key", ja: "冪等キー" },
  pinned: { en: "Must run on", ja: "指定ノード" },
  epoch: { en: "Leader epoch", ja: "リーダーのエポック" },
  fence: { en: "Fence", ja: "フェンス" },

  cancel: { en: "Cancel", ja: "取り消す" },
  cancel_title: { en: (id: number) => `Cancel run ${id}?`, ja: (id) => `実行 ${id} を取り消しますか？` },
  cancel_text: {
    en: (job: string) =>
      `This run of ${job} ends as CANCELED. A running body is asked to stop, and killed if it does not.`,
    ja: (job) =>
      `${job} のこの実行は CANCELED で終わります。本体が動いていれば停止を伝え、止まらなければ強制終了します。`,
  },
  cancel_done: {
    en: (id: number) => `Cancel of run ${id} is requested`,
    ja: (id) => `実行 ${id} の取り消しを要求しました`,
  },
  cancel_before: {
    en: (id: number) => `Cancel of run ${id} was already requested`,
    ja: (id) => `実行 ${id} の取り消しはすでに要求されています`,
  },
  cancel_late: {
    en: (id: number, state: string) => `Run ${id} had already ended as ${state}`,
    ja: (id, state) => `実行 ${id} はすでに ${state} で終わっています`,
  },
  retry: { en: "Run again", ja: "再実行" },
  retry_title: { en: (id: number) => `Run ${id} again?`, ja: (id) => `実行 ${id} を再実行しますか？` },
  retry_text: {
    en: (job: string) => `A new run of ${job} is created with the same args. This run stays as it is.`,
    ja: (job) => `${job} の新しい実行を同じ引数で作成します。この実行はそのまま残ります。`,
  },
  retry_done: {
    en: (id: number, of: number) => `Run ${id} is created, with the args of run ${of}`,
    ja: (id, of) => `実行 ${of} の引数による新しい実行 ${id} です`,
  },
  retry_not: {
    en: (id: number) =>
      `Cannot run ${id} again: it has not ended, its job was removed, or this form was already submitted`,
    ja: (id) => `実行 ${id} は今は再実行できません。終わっていないか、ジョブが削除されたか、すでに送信されています`,
  },

  reruns: { en: "Retried by", ja: "再実行" },
  attempt_ended: {
    en: (n: number, outcome: string) => `Attempt ${n}: ${outcome}`,
    ja: (n, outcome) => `試行 ${n}: ${outcome}`,
  },
  attempts_more: { en: (n: number) => `${counted(n, "earlier attempt")}`, ja: (n) => `それ以前の試行 ${n} 回` },
  cancel_asked: { en: "Cancel requested", ja: "取り消し要求" },
  schema: { en: "Args of the job (JSON Schema)", ja: "ジョブの引数（JSON Schema）" },
  edit: { en: "Run again, edited", ja: "編集して再実行" },
  edit_title: { en: (id: number) => `Run ${id} again with other args`, ja: (id) => `実行 ${id} を編集して再実行` },
  edit_refused: { en: "No run was created", ja: "作成していません" },
  edit_done: {
    en: (id: number, of: number) => `Run ${id} is created, with the edited args of run ${of}`,
    ja: (id, of) => `実行 ${of} の引数を編集した新しい実行 ${id} です`,
  },
  move: { en: "Priority", ja: "優先度" },
  move_title: {
    en: (id: number) => `Change the priority of run ${id}?`,
    ja: (id) => `実行 ${id} の優先度を変更しますか？`,
  },
  priority_hint: { en: "Priority, from 0 (first) to 999 (last)", ja: "優先度: 0（最優先）〜 999（最後）" },
  move_done: {
    en: (id: number, priority: number) => `Run ${id} now has priority ${priority}`,
    ja: (id, priority) => `実行 ${id} の優先度を ${priority} にしました`,
  },
  move_not: {
    en: (id: number, priority: number) =>
      `Nothing changed: run ${id} is no longer waiting, or already has priority ${priority}`,
    ja: (id, priority) => `変更なし: 実行 ${id} はもう待っていないか、すでに優先度 ${priority} です`,
  },
  close: { en: "Close as missing", ja: "不明として終了" },
  close_title: {
    en: (id: number) => `Close run ${id} as missing?`,
    ja: (id) => `実行 ${id} を不明として終了しますか？`,
  },
  close_text: {
    en: (job: string) =>
      `A last resort for a run of ${job} that cannot be ended otherwise: it becomes FAILED (Missing) at once. A running body is not stopped and may overlap with the next run of its serial key. Try Cancel first.`,
    ja: (job) =>
      `他の方法で終わらない ${job} の実行に対する最後の手段です。ただちに FAILED (Missing) になります。本体が動いていても停止されず、同じ直列キーの次の実行と並行して動く可能性があります。先に「取り消す」を試してください。`,
  },
  close_why: {
    en: "Nothing changed: closing a run needs a reason",
    ja: "何もしていません。不明として終了するには理由が必要です",
  },
  close_done: {
    en: (id: number) => `Run ${id} is closed as FAILED (Missing)`,
    ja: (id) => `実行 ${id} を FAILED (Missing) で終了しました`,
  },
  many_fit: { en: "With all matching runs:", ja: "条件に合うすべての実行を:" },
  many_all_of_them: { en: "With all runs:", ja: "すべての実行を:" },
  many_all: { en: "no condition: all runs", ja: "条件なし: すべての実行" },
  many_examples: {
    en: (n: number) => n === 1 ? "This run:" : `The newest ${n}:`,
    ja: (n) => n === 1 ? "対象:" : `新しい順に ${n} 件:`,
  },
  many_uncounted: { en: "an unknown number of", ja: "（数は未集計）" },
  many_none_near: {
    en: "None of the newest runs matches; older runs are searched when you confirm.",
    ja: "新しい実行に該当はありません。古い実行は実行時に探します。",
  },
  many_old: {
    en: "This form is too old: review the affected runs again.",
    ja: "この画面は古くなりました。対象をもう一度確認してください。",
  },
});

/** For an act on all runs that a filter means. */
export const MANY = {
  cancel: words({
    open: { en: "Cancel…", ja: "取り消す…" },
    title: { en: (n: string) => `Cancel ${counted(n, "run")}?`, ja: (n) => `${n} 件の実行を取り消しますか？` },
    text: {
      en: "Runs that have not ended become CANCELED. Running bodies are asked to stop, and killed if they do not.",
      ja: "終わっていない実行は CANCELED で終わります。動いている本体には停止を伝え、止まらなければ強制終了します。",
    },
    none: {
      en: "No unended run matches these conditions.",
      ja: "条件に合う、終わっていない実行はありません。",
    },
    verb: { en: (n: string) => `Cancel ${counted(n, "run")}`, ja: (n) => `${n} 件を取り消す` },
    done: {
      en: (n: string) => `Cancel is requested for ${counted(n, "run")}`,
      ja: (n) => `${n} 件の取り消しを要求しました`,
    },
  }),
  retry: words({
    open: { en: "Run again…", ja: "再実行…" },
    title: { en: (n: string) => `Run ${counted(n, "run")} again?`, ja: (n) => `${n} 件の実行を再実行しますか？` },
    text: {
      en: "For each ended run a new run is created with the same args; the ended runs stay as they are.",
      ja: "終わった実行ごとに、同じ引数の新しい実行を作成します。元の実行はそのまま残ります。",
    },
    none: { en: "No ended run matches these conditions.", ja: "条件に合う、終わった実行はありません。" },
    verb: { en: (n: string) => `Run ${n} again`, ja: (n) => `${n} 件を再実行` },
    done: { en: (n: string) => `${counted(n, "new run")} created`, ja: (n) => `新しい実行を ${n} 件作成しました` },
  }),
  reprioritize: words({
    open: { en: "Priority…", ja: "優先度…" },
    title: {
      en: (n: string) => `Change the priority of ${counted(n, "run")}?`,
      ja: (n) => `${n} 件の優先度を変更しますか？`,
    },
    text: {
      en: "Waiting runs follow the new order at once.",
      ja: "待っている実行は、ただちに新しい順序で開始されます。",
    },
    none: { en: "No waiting run matches these conditions.", ja: "条件に合う、待っている実行はありません。" },
    verb: { en: (n: string) => `Change ${counted(n, "run")}`, ja: (n) => `${n} 件を変更` },
    done: {
      en: (n: string) => `${counted(n, "waiting run")} changed`,
      ja: (n) => `待っている ${n} 件の優先度を変更しました`,
    },
  }),
};
