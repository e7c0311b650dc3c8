/** What an alert says, in the viewer's language and zone: by its kind and what it is about. */
import type { Alert, AlertKind } from "../../alerts/alerts.ts";
import { type OtherVersion, versionOf } from "../../runs/wait_reason.ts";
import type { RequestContext } from "../request_context.ts";
import { othersJa } from "./code_text.ts";
import { timeText } from "./time.tsx";

/** Of what an alert keeps as its detail, each kind has some. */
interface Detail {
  job_run_id?: number;
  due_at?: string;
  not_after?: string;
  since?: string;
  clock_skew_ms?: number;
  job_name?: string;
  digest?: string;
  others?: OtherVersion[];
  node?: string;
  tries?: number;
  addresses?: number;
}

type Said = Record<AlertKind, (detail: Detail, when: (at: string | undefined) => string) => string>;

const JA: Said = {
  "run.failed": ({ job_run_id }) => `実行 ${job_run_id} が失敗しました`,
  "run.quarantined": ({ job_run_id }) => `実行 ${job_run_id} は中断が多すぎるため打ち切られました`,
  "run.overdue": ({ due_at }, when) => `${when(due_at)} の予定ですが、まだ開始していません`,
  "code.missing": ({ job_name = "?", digest = "", node, others }) =>
    `ジョブ ${job_name} の版 ${versionOf(digest)} を持つワーカーが${
      node === undefined ? "" : `「${node}」に`
    }ありません${othersJa(others)}`,
  "node.away": () => "ワーカーがいないか、確認に失敗しました（詳細はノードのページ）",
  "leader.none": ({ since }, when) => `${when(since)} からリーダーがいません`,
  "bulk.paused": () => "失敗が上限を超えたため、自動で一時停止しました",
  "key.blocked": ({ job_run_id }) => `実行 ${job_run_id} が失敗したため、このキーを停止しました`,
  "certificate.expiring": ({ not_after }, when) => `ワーカーの証明書は ${when(not_after)} に期限が切れます`,
  "clock.skewed": ({ clock_skew_ms }) => `時計がデータベースと ${clock_skew_ms} ms ずれています`,
  "login.guessed": ({ tries, addresses }) =>
    `15 分以内に ${addresses} 個のアドレスから ${tries} 回、誤ったパスワードが試されました`,
};

/** English as it was written when it was opened, but for times, which are the viewer's. */
export function alertText(on: RequestContext, alert: Pick<Alert, "kind" | "message" | "detail">): string {
  const detail = (alert.detail ?? {}) as Detail;
  const when = (at: string | undefined) => at === undefined ? "?" : timeText(new Date(at), on.zone);
  if (on.lang === "ja" && Object.hasOwn(JA, alert.kind)) return JA[alert.kind](detail, when);
  if (alert.kind === "run.overdue" && detail.due_at) return `due since ${when(detail.due_at)} and not started`;
  if (alert.kind === "leader.none" && detail.since) return `no leader since ${when(detail.since)}`;
  if (alert.kind === "certificate.expiring" && detail.not_after) {
    return `a certificate of its workers expires at ${when(detail.not_after)}`;
  }
  return alert.message;
}
