/** What an act was refused for, in the visitor's language; in English, the words of the act itself. */
import type { RefusalCode, Refused } from "../client/args.ts";
import type { Lang } from "./words.ts";

export function refusalText(lang: Lang, { message, says }: Refused): string {
  if (lang === "en") return message;
  return says ? ja(says) : `受け付けられません。何も変更していません（${message}）`;
}

function ja(says: RefusalCode): string {
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
      return `引数がジョブのスキーマに合いません：${says.text}`;
    case "too_large":
      return `大きすぎます：JSON ${says.bytes} バイト（最大 ${says.most}）`;
    case "unstorable":
      return "Postgres に保存できない文字（NUL または不完全な文字）が含まれています";
    case "too_many_slots":
      return `範囲に ${says.most} を超える枠があります。範囲を短くしてください`;
  }
}
