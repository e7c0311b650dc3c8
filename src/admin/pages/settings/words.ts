/** Words of the page of settings. */
import { words } from "../../words.ts";

export const SETTINGS = words({
  title: { en: "Settings", ja: "設定" },
  live: {
    en: "Settings apply to all workers. Changes take effect within seconds, without a restart.",
    ja: "すべてのワーカーに適用されます。変更は再起動なしで数秒以内に反映されます。",
  },
  setting: { en: "Setting", ja: "設定項目" },
  value: { en: "Value", ja: "値" },
  usual: { en: "Default", ja: "既定値" },
  bounds: { en: "Bounds", ja: "範囲" },
  changed: { en: "Changed", ja: "変更" },
  change: { en: "Change", ja: "変更する" },
  review: { en: "Review", ja: "確認" },
  reset: { en: "Reset", ja: "既定値に戻す" },
  to_default: { en: "back to the default", ja: "既定値に戻す" },
  relations: { en: "Rules between settings", ja: "項目間の規則" },
  from_now: { en: "Now", ja: "現在" },
  then: { en: "Then", ja: "変更後" },
  review_title: { en: "Apply these changes?", ja: "この変更を適用しますか？" },
  review_text: {
    en: "All changes are applied together, for all workers.",
    ja: "すべてまとめて、全ワーカーに適用されます。",
  },
  cannot: { en: "This cannot be applied", ja: "この変更は適用できません" },
  nothing: { en: "No value differs from the current settings.", ja: "現在の値と違いがありません。" },
  apply: { en: "Apply", ja: "適用" },
  done: { en: (names: string) => `Changed: ${names}`, ja: (names) => `変更しました：${names}` },
  same: { en: "Nothing changed: the settings already have these values", ja: "すでにその値です。変更はありません" },
  moved: {
    en: (name: string, who: string) => `${name} was changed by ${who} in the meantime: review it again`,
    ja: (name, who) => `${name} はその間に ${who} が変更しました。もう一度確認してください`,
  },
  history: { en: "All changes", ja: "変更履歴" },
  wrong: {
    en: "The stored settings are invalid, so all defaults apply",
    ja: "保存された値は使用できないため、すべて既定値で動作しています",
  },
});
