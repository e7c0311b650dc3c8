/** What is wrong with an option or a schedule that somebody typed, in their language; in English, the words of the catalog. */
import type { CronField } from "../../schedule_kinds/cron_pattern.ts";
import type { DaysMistake } from "../../schedules/exclusion.ts";
import { scheduleWith, type StoredTimes } from "../../sync/overrides.ts";
import { shown } from "../../platform/shown.ts";
import { type Complaint, complaintLine, type Says } from "../../job_options/complaint.ts";
import type { Shortage } from "../../dispatch/feasibility.ts";
import type { Lang } from "../../locale/locale.ts";

export function complaintsText(lang: Lang, complaints: Complaint[]): string {
  return complaints.map((one) => complaintText(lang, one)).join("\n");
}

/** Why a schedule that is stored cannot be read on this machine; `error`: what reading it threw. */
export function unreadableText(lang: Lang, schedule: StoredTimes, error: unknown): string {
  const parsed = scheduleWith(schedule, {});
  return parsed.ok ? (error as Error).message : complaintsText(lang, parsed.complaints);
}

function complaintText(lang: Lang, complaint: Complaint): string {
  const { key, value, says } = complaint;
  if (lang === "en" || !says) return complaintLine(complaint);
  const found = value === undefined || value === "" ? "" : `（入力：${shown(value)}）`;
  return `${key === "" ? "" : `${key}：`}${ja(says)}${found}`;
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
    case "day_of_month":
      return '{ day: 15, at: "02:30" } の形か「15 02:30」「last 02:30」（月末）「2 tue 02:30」（第 2 火曜）のように入力してください。' +
        "日は 1 から 31、時刻は 00:00 から 23:59 です";
    case "cron":
      return `cron 式として読めません。${cronJa(says.wrong)}`;
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
    case "object":
      return "{ ... } の形で指定してください";
    case "unknown":
      return `設定できない項目です。設定できるのは ${says.words.join("、")} です`;
    case "missing":
      return "値が必要です";
    case "priority":
      return "0（最優先）から 999 までの整数、または admin.high や user.medium+5 のような名前を指定してください";
    case "braces":
      return "{ と } の数が合いません。項目は tenant:{tenant} のように書いてください";
    case "rate":
      return "件数/秒数（例 60/1 は 1 秒に 60 件まで）で入力してください";
    case "one_kind":
      return `時刻の指定は ${says.words.join("、")} のうち 1 つだけにしてください`;
    case "jitter":
      return says.most > 0
        ? `次の予定までの最短の間隔より短くしてください（最大 ${says.most} 秒）`
        : "予定の間隔が短いため、ゆらぎは指定できません";
    case "days":
      return DAYS_JA[says.wrong];
    case "no_schedule":
      return says.ids.length > 0
        ? `このスケジュールはありません。あるのは ${says.ids.join("、")} です`
        : "このジョブにスケジュールはありません。ファイルに追加してください";
    case "not_set":
      return "ファイルとは別に設定された値はありません";
    case "file_removed":
      return "ジョブのファイルが削除されています。戻して同期してください";
    default:
      return lackJa(says);
  }
}

/** What no node and no resource that there is could give. */
export function lackJa(says: Shortage["says"]): string {
  switch (says.code) {
    case "nowhere": {
      const missing = says.selector.includes("=")
        ? `ラベル ${says.selector} のノードはありません`
        : `ノード ${says.selector} はありません`;
      const more = says.more > 0 ? ` ほか ${says.more} 件` : "";
      return says.known.length > 0
        ? `${missing}。あるのは ${says.known.join("、")}${more} です`
        : `${missing}。まだノードが 1 つもありません。ワーカーを起動してください`;
    }
    case "resource_unknown":
      return `リソース ${says.resource} は未登録です。キューのページで ${says.needed} 以上に設定してください`;
    case "resource_short":
      return `1 回の実行にリソース ${says.resource} が ${says.needed} 必要ですが、全体で ${says.capacity} しかありません`;
  }
}

/** Each with what it can be. */
const FIELDS_JA: Record<CronField, string> = {
  second: "秒（0〜59）",
  minute: "分（0〜59）",
  hour: "時（0〜23）",
  day: "日（1〜31、L、W）",
  month: "月（1〜12、JAN〜DEC）",
  weekday: "曜日（0〜7、SUN〜SAT）",
  year: "年",
};

function cronJa(wrong: Extract<Says, { code: "cron" }>["wrong"]): string {
  switch (wrong.what) {
    case "count":
      return `項目が ${wrong.count} 個です。「分 時 日 月 曜日」の 5 個（例 30 2 * * 1-5）で入力してください`;
    case "field":
      return `${FIELDS_JA[wrong.field]}の ${wrong.text} が正しくありません`;
    default:
      return "「分 時 日 月 曜日」（例 30 2 * * 1-5）で入力してください";
  }
}

const DAYS_JA: Record<DaysMistake, string> = {
  no_day: "日付として読めません。2026-12-31、毎年なら 12-25、期間なら 2026-12-29/2027-01-03 のように書いてください",
  no_such_day: "存在しない日付です",
  mixed: "期間の両端は、年を両方に付けるか、両方とも省いてください",
  backwards: "期間の終わりが始まりより前です",
};
