/** What an act was refused for, in the visitor's language; in English, the words of the act itself. */
import type { z } from "zod";
import type { RefusalCode, Refused } from "../client/args.ts";
import type { SchemaIssue } from "../job.ts";
import { issueJa } from "./args/issue_text.ts";
import { complaintsText, lackJa } from "./parts/complaint_text.ts";
import type { Lang } from "./words.ts";

export function refusalText(lang: Lang, { message, says }: Refused): string {
  if (lang === "en") return message;
  const item = "item" in says && says.item !== undefined ? `${says.item} 件目：` : "";
  return `${item}${says.code === "misuse" ? `受け付けられません（${message}）` : ja(says)}`;
}

function ja(says: Exclude<RefusalCode, { code: "misuse" }>): string {
  switch (says.code) {
    case "none":
      return `${says.what} は見つかりません`;
    case "nobody_leads":
      return "リーダーが不在です。ワーカーを起動してください";
    case "steps_down":
      return "そのリーダーはすでに降格中か、降格しています";
    case "in_maintenance":
      return "メンテナンス中のため確認しません。先に解除してください";
    case "no_such_worker":
      return `${says.name} に該当する ${says.state.toUpperCase()} のワーカーがありません`;
    case "not_detachable":
      return `${says.name} には切り離せるワーカー（ACTIVE か DRAINING）がありません`;
    case "taken":
      return `${says.name} という名前はすでに使われています`;
    case "hook_name":
      return "名前は英小文字・数字・_ . - の 64 文字以内で入力してください";
    case "length":
      return `${says.option} は ${says.least} から ${says.most} 文字で入力してください`;
    case "whole_number":
      return `${says.option} は ${says.least} から ${says.most} までの整数です`;
    case "run_ended":
      return `実行はすでに ${says.state} で終わっています`;
    case "run_goes_on":
      return `実行は ${says.state} です。終わるのを待つか、先に取り消してください`;
    case "job_gone":
      return `ジョブ ${says.job_name} は同期されていないか、ファイルが削除されています`;
    case "args_unfit":
      return `引数がジョブのスキーマに合いません：${says.found.map(foundJa).join("、")}`;
    case "too_large":
      return `大きすぎます：JSON ${says.bytes} バイト（最大 ${says.most}）`;
    case "unstorable":
      return "Postgres に保存できない文字（NUL または不完全な文字）が含まれています";
    case "too_many_slots":
      return `範囲に ${says.most} を超える枠があります。範囲を短くしてください`;
    case "range_empty":
      return "範囲の始まりは終わりより前にしてください";
    case "range_to_come":
      return "範囲がこれからの時刻を含んでいます。これからの枠は自動で実行されます";
    case "which_schedule":
      return `スケジュールを 1 つ選んでください：${says.names.join("、")}`;
    case "leader_silent":
      return "リーダーから応答がありません";
    case "capacity_zero":
      return `リソース ${says.name} の容量は 0 にできません（使う実行が永久に待ちます）。止めるにはジョブを一時停止してください`;
    case "waits_not":
      return `実行は ${says.state} です。優先度を変えられるのは待っている実行だけです`;
    case "bulk_over":
      return says.state === "CANCELED"
        ? `一括 ${says.bulk_id} は取り消されています`
        : `一括 ${says.bulk_id} はすでに終わっています`;
    case "query_failed":
      return `クエリが失敗しました（${says.text}）`;
    case "next_is_itself":
      return `${says.option} には別のジョブを指定してください`;
    case "number":
      return `${says.option} は ${says.least} から ${says.most} までの数です`;
    case "share":
      return `${says.option} は 0 より大きく 1 より小さい割合です`;
    case "choice":
      return `${says.option} は ${says.words.join("、")} のいずれかです`;
    case "priority":
      return "優先度は 0 から 999 までの整数か、admin.high のような名前です";
    case "date":
      return `${says.option} は日時として読めません`;
    case "no_event_type":
      return "イベントの種類を入力してください（例 order.placed）";
    case "options":
      return complaintsText("ja", [...says.complaints]);
    default:
      return lackJa(says);
  }
}

/** What another library than ours found stays in its words. */
function foundJa({ path = [], message, ...issue }: SchemaIssue): string {
  const place = path.map((step) => String(typeof step === "object" ? step.key : step)).join(".");
  const text = "code" in issue ? issueJa({ ...issue, path } as z.core.$ZodRawIssue) : message;
  return place === "" ? text : `${place}：${text}`;
}
