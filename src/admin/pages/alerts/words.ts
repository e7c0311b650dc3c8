/** Words of the page of alerts. */
import type { AlertKind } from "../../../alerts/alerts.ts";
import { words } from "../../words.ts";

export const ALERTS = words({
  title: { en: "Alerts", ja: "アラート" },
  open: { en: "Open", ja: "発生中" },
  recent: { en: "Recent", ja: "最近" },
  none_open: { en: "No open alerts.", ja: "確認が必要なものはありません。" },
  none_recent: { en: "No recent alerts.", ja: "最近のアラートはありません。" },
  kind: { en: "Kind", ja: "種類" },
  subject: { en: "Subject", ja: "対象" },
  message: { en: "Message", ja: "内容" },
  opened: { en: "Since", ja: "発生" },
  closed: { en: "Closed", ja: "解消" },
  told: { en: "Webhook notified", ja: "Webhook 通知" },
  seen: { en: "Seen by", ja: "確認者" },
  ack: { en: "Acknowledge", ja: "確認済みにする" },
  ack_title: { en: (subject: string) => `Acknowledge: ${subject}?`, ja: (subject) => `確認済みにしますか：${subject}` },
  ack_text: {
    en:
      "Records that somebody has seen the alert. This closes alerts of failures and lost nodes; others close when their cause is gone.",
    ja: "確認したことを記録します。失敗とノード消失はこれで閉じ、他は解消したときに閉じます。",
  },
  ack_done: { en: "Acknowledged", ja: "確認済みにしました" },
  ack_not: { en: "The alert is closed or already acknowledged", ja: "すでに解消したか、確認済みです" },
  test: { en: "Test the webhook", ja: "Webhook をテスト" },
  test_title: { en: "Send a test to the webhook?", ja: "Webhook にテストを送信しますか？" },
  test_text: {
    en: "A worker sends it to SCHEDULER_ALERT_WEBHOOK_URL; the result is shown here.",
    ja: "ワーカーが SCHEDULER_ALERT_WEBHOOK_URL に送信し、結果をここに表示します。",
  },
  test_asked: { en: "Sending a test", ja: "テストを送信しています" },
  test_waits: {
    en: "No worker has sent the test yet. At least one worker needs SCHEDULER_ALERT_WEBHOOK_URL.",
    ja: "テストはまだ送信されていません。SCHEDULER_ALERT_WEBHOOK_URL を設定したワーカーがなければ送信されません。",
  },
  test_delivered: {
    en: (worker: string) => `The webhook accepted the test, sent by ${worker}`,
    ja: (worker) => `Webhook がテストを受け取りました（送信：${worker}）`,
  },
  test_refused: {
    en: (tries: number) => `The webhook did not accept the test after ${tries} attempts; further attempts follow`,
    ja: (tries) => `Webhook はテストを受け取りませんでした（${tries} 回試行、再試行します）`,
  },
  limits: { en: "Limits", ja: "アラートの基準" },
});

/** In English what the store says of each kind. */
export const KINDS_JA: Record<AlertKind, string> = {
  "run.failed": "ジョブの実行が最終的に失敗し、その後成功していません",
  "run.quarantined": "ジョブの実行が中断されすぎ、その後成功していません",
  "run.overdue": "ジョブの仕事が予定を過ぎても開始しません",
  "code.missing": "同期したジョブの版を持つワーカーがありません",
  "node.away": "ノードのワーカーがいないか、応答しません",
  "leader.none": "リーダーが不在です",
  "bulk.paused": "失敗が多く、一括が自動で一時停止しました",
  "key.blocked": "失敗により直列キーが停止しています",
  "certificate.expiring": "ノードのワーカーの証明書の残り日数がわずかです",
  "clock.skewed": "ノードの時計がデータベースとずれています",
  "login.guessed": "ユーザーのパスワードが推測されています",
};
