/** What an act was refused for, in the visitor's language; in English, the words of the act itself. A code without words does not compile. */
import type { z } from "zod";
import type { RefusalCode, Refused } from "../actions/args.ts";
import type { SchemaIssue } from "../job.ts";
import { issueJa } from "./args/issue_text.ts";
import { complaintsText, lackJa } from "./parts/complaint_text.ts";
import type { Lang } from "../locale/locale.ts";

export function refusalText(lang: Lang, { message, says }: Refused): string {
  if (lang === "en") return message;
  const item = "item" in says && says.item !== undefined ? `${says.item} 件目：` : "";
  const text = (JA[says.code] as (says: RefusalCode) => string)(says);
  return `${item}${text}${says.code === "misuse" ? `（${message}）` : ""}`;
}

const JA: { [Code in RefusalCode["code"]]: (says: Extract<RefusalCode, { code: Code }>) => string } = {
  none: (says) => `${says.what} は見つかりません`,
  nobody_leads: () => "リーダーが不在です。ワーカーを起動してください",
  steps_down: () => "そのリーダーはすでに降格中か、降格しています",
  node_lives: (says) => `ワーカー ${says.worker_id} がまだ動いています。先に停止してください`,
  node_carries: (says) =>
    `実行 ${says.job_run_id} がまだこのノードに割り当てられています。リーダーが移すまでお待ちください`,
  no_such_worker: (says) => `${says.name} に該当する ${says.state.toUpperCase()} のワーカーがありません`,
  not_detachable: (says) => `${says.name} には切り離せるワーカー（ACTIVE か DRAINING）がありません`,
  taken: (says) => `${says.name} という名前はすでに使われています`,
  user_disabled: (says) => `${says.name} はすでに無効です`,
  user_enabled: (says) => `${says.name} は無効になっていません`,
  last_admin: (says) =>
    `${says.name} は最後の管理者なので、無効化も削除も役割の変更もできません。先に別のユーザーを管理者にしてください`,
  hook_name: () => "名前は英小文字・数字・_ . - の 64 文字以内で入力してください",
  length: (says) => `${nameJa(says.option)}は ${says.least} から ${says.most} 文字で入力してください`,
  whole_number: (says) => `${nameJa(says.option)}は ${says.least} から ${says.most} までの整数です`,
  run_ended: (says) => `実行はすでに ${says.state} で終わっています`,
  no_followers: (says) => `ジョブ ${says.job_name} の後に続くジョブはありません。このジョブだけを再実行してください`,
  run_goes_on: (says) => `実行は ${says.state} です。終わるのを待つか、先に取り消してください`,
  job_gone: (says) => `ジョブ ${says.job_name} は同期されていないか、ファイルが削除されています`,
  args_unfit: (says) => `引数がジョブのスキーマに合いません：${says.found.map(foundJa).join("、")}`,
  no_such_message: (says) =>
    says.names.length === 0
      ? `ジョブ ${says.job_name} はメッセージを受け取りません`
      : `ジョブ ${says.job_name} が受け取るメッセージは ${says.names.join("、")} です`,
  message_unfit: (says) => `内容がメッセージのスキーマに合いません：${says.found.map(foundJa).join("、")}`,
  not_yours_to_answer: (says) => `${says.who} はこの質問に回答できない人に指定されています。ほかの人に依頼してください`,
  asks_others: (says) => `この質問の回答者は ${says.who} です`,
  fork_refused: (says) => `このステップからやり直すことはできません: ${says.text}`,
  no_such_wait: (says) =>
    says.names.length === 0 ? "この実行は何も待っていません" : `この実行が待っているのは ${says.names.join("、")} です`,
  wait_not_by_time: (says) => `${says.key} は時間では終わりません。待っている相手の実行を取り消してください`,
  unread_full: (says) =>
    `未読のメッセージが ${says.most} 件あります。実行が受け取ってから送るか、実行を取り消してください`,
  message_not_for_emit: (says) => `メッセージ ${says.name} は、イベントの送信だけを許されたトークンでは送れません`,
  too_large: (says) => `大きすぎます：JSON ${says.bytes} バイト（最大 ${says.most}）`,
  too_deep: (says) => `入れ子が深すぎます（最大 ${says.most} 段）`,
  unstorable: () => "Postgres に保存できない文字（NUL または不完全な文字）が含まれています",
  too_many_slots: (says) => `範囲に ${says.most} を超える枠があります。範囲を短くしてください`,
  range_empty: () => "範囲の始まりは終わりより前にしてください",
  range_to_come: () => "範囲がこれからの時刻を含んでいます。これからの枠は自動で実行されます",
  which_schedule: (says) => `スケジュールを 1 つ選んでください：${says.names.join("、")}`,
  leader_silent: () => "リーダーから応答がありません",
  capacity_zero: (says) =>
    `リソース ${says.name} の容量は 0 にできません（使う実行が永久に待ちます）。止めるにはジョブを一時停止してください`,
  waits_not: (says) => `実行は ${says.state} です。優先度を変えられるのは待っている実行だけです`,
  bulk_over: (says) =>
    says.state === "CANCELED"
      ? `一括 ${says.bulk_id} は取り消されています`
      : `一括 ${says.bulk_id} はすでに終わっています`,
  query_failed: (says) => `クエリが失敗しました（${says.text}）`,
  next_is_itself: (says) => `${nameJa(says.option)}には別のジョブを指定してください`,
  number: (says) => `${nameJa(says.option)}は ${says.least} から ${says.most} までの数です`,
  share: (says) => `${nameJa(says.option)}は 0 より大きく 1 より小さい割合です`,
  choice: (says) => `${nameJa(says.option)}は ${says.words.join("、")} のいずれかです`,
  forbidden: (says) => `この操作には ${says.needs} の権限が必要です`,
  too_many_tries: () => "失敗が続いたため、15 分ほど待ってからもう一度お試しください",
  reason_needed: () => "理由を入力してください（監査に残ります）",
  input_unfit: (says) => says.found.map(foundJa).join("、"),
  settings_conflict: (says) => `設定の値が合いません（${says.text}）`,
  nothing_failed: (says) => `一括 ${says.bulk_id} には、まだ再試行していない失敗がありません`,
  priority: () => "優先度は 0 から 999 までの整数か、admin.high のような名前です",
  date: (says) => `${nameJa(says.option)}は日時として読めません`,
  no_event_type: () => "イベントの種類を入力してください（例 order.placed）",
  key_of_other: () => "そのキーは、別のイベントの種類、または別の実行ですでに使われています",
  options: (says) => complaintsText("ja", [...says.complaints]),
  nowhere: lackJa,
  resource_unknown: lackJa,
  resource_short: lackJa,
  misuse: () => "受け付けられません",
};

/** Options by the names that pages give them. */
const NAMES_JA: Record<string, string> = {
  dedupeKey: "重複排除キー",
  event_type: "イベントの種類",
  idempotencyKey: "冪等キー",
  intervalSeconds: "間隔",
  name: "名前",
  node: "ノード",
  parallel: "並列数",
  rate_per_minute: "毎分の上限",
  serialKey: "直列キー",
};

/** What is not Japanese is set off by a blank. */
function nameJa(option: string): string {
  return Object.hasOwn(NAMES_JA, option) ? NAMES_JA[option] as string : `${option} `;
}

/** What another library than ours found stays in its words. */
function foundJa({ path = [], message, ...issue }: SchemaIssue): string {
  const place = path.map((step) => String(typeof step === "object" ? step.key : step)).join(".");
  const text = "code" in issue ? issueJa({ ...issue, path } as z.core.$ZodRawIssue) : message;
  return place === "" ? text : `${place}：${text}`;
}
