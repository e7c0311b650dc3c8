/** What is wrong with settings, in the visitor's language; in English, the words of the store. */
import { type Relation, relationText, type SettingProblem } from "../../../settings/settings.ts";
import type { Lang } from "../../../locale/locale.ts";

export function problemText(lang: Lang, problem: SettingProblem): string {
  if (lang === "en") return problem.text;
  switch (problem.code) {
    case "bounds":
      return `${problem.name} は ${problem.least} から ${problem.most} までの${
        problem.whole ? "整数" : "数"
      }です（入力：${JSON.stringify(problem.value)}）`;
    case "choice":
      return `${problem.name} は ${problem.choices.join("、")} のいずれかです（入力：${
        JSON.stringify(problem.value)
      }）`;
    case "relation":
      return `${ruleText(lang, problem.relation)}（現在 ${problem.values.join("、")}）`;
    case "unknown":
      return `${problem.name} という設定はありません`;
  }
}

export function ruleText(lang: Lang, relation: Relation): string {
  if (lang === "en") return relationText(relation);
  const least = relation.at_least.map(([times, name]) => times === 1 ? name : `${times} × ${name}`).join(" + ");
  return `${relation.of} は ${least} 以上にしてください`;
}
