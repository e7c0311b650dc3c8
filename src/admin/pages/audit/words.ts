/** Words of the page of the audit. */
import { words } from "../../words.ts";

export const AUDIT = words({
  title: { en: "Audit", ja: "監査" },
  at: { en: "When", ja: "日時" },
  actor: { en: "Who", ja: "誰が" },
  action: { en: "Action", ja: "操作" },
  target: { en: "Target", ja: "対象" },
  target_type: { en: "Kind of target", ja: "対象の種類" },
  target_id: { en: "Target", ja: "対象" },
  changes: { en: "Before → after", ja: "変更前 → 変更後" },
  reason: { en: "Reason", ja: "理由" },
  since: { en: "From", ja: "開始" },
  until: { en: "Until", ja: "終了" },
  none: { en: "The audit log is empty.", ja: "まだ操作の記録がありません。" },
  none_match: { en: "No entry matches these conditions.", ja: "条件に合う操作はありません。" },
  kept: {
    en: "Entries are only added: the database refuses to change or delete them.",
    ja: "追加のみ可能です。変更と削除はデータベースが拒否します。",
  },
  keep: { en: (most: number) => `Export these (at most ${most}):`, ja: (most) => `保存（最大 ${most} 件）：` },
  more: { en: "Show all", ja: "すべて表示" },
});
