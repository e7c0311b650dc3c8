/** What is wrong with an option or a schedule that somebody typed, in their language; in English, the words of the catalog. */
import type { Complaint, Says } from "../../../catalog/problem.ts";
import type { Lang } from "../../words.ts";

export function complaintsText(lang: Lang, complaints: Complaint[]): string {
  return complaints.map((one) => complaintText(lang, one)).join("\n");
}

/** Of an act that was refused. */
export function problemText(
  on: { lang: Lang },
  answer: { problems: string[]; complaints?: Complaint[] },
): string {
  return answer.complaints ? complaintsText(on.lang, answer.complaints) : answer.problems.join("\n");
}

function complaintText(lang: Lang, { key, value, reason, fix, says }: Complaint): string {
  if (lang === "en" || !says) return `${reason}; ${fix}`;
  const found = value === undefined ? "" : `（入力：${JSON.stringify(value)}）`;
  return `${key}：${ja(says)}${found}`;
}

function ja(says: Says): string {
  switch (says.code) {
    case "number":
      return `${says.least} から ${says.most} までの${says.whole ? "整数" : "数"}を入力してください`;
    case "choice":
      return `${says.words.join("、")} のいずれかを指定してください`;
    case "text":
      return `1 行、1 から ${says.most} 文字で入力してください`;
    case "time_of_day":
      return "時刻は 00:00 から 23:59 までの HH:MM（例 02:30）で入力してください";
    case "cron":
      return `cron 式として読めません。「分 時 日 月 曜日」（例 30 2 * * 1-5）で入力してください。詳細：${says.why}`;
    case "zone":
      return says.like
        ? `IANA タイムゾーンではありません。${says.like} のことですか？`
        : "IANA タイムゾーンではありません。Asia/Tokyo や UTC のように入力してください";
    case "never":
      return "この設定では 50 年以内に一度も実行されません";
    case "no_value":
      return "空にはできません。値を入力するか、ファイルの値に戻してください";
    case "truth":
      return "true か false を指定してください";
  }
}
