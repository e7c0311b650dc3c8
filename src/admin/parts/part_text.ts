/** What a check of a node looked at and found, in the visitor's language, by its figures. What a script says is its own. */
import type { CheckPart } from "../../nodes/check_part.ts";
import type { NodeListing } from "../../nodes/node_health.ts";
import { engineText } from "./engine_text.ts";
import type { Lang } from "../../locale/locale.ts";

const NAMES_JA: Record<string, string> = {
  connection: "接続",
  disk: "ディスク",
  load: "負荷",
  memory: "メモリ",
  bodies: "実行中の本体",
};

export function partName(lang: Lang, name: string): string {
  if (lang === "en") return name;
  return Object.hasOwn(NAMES_JA, name) ? NAMES_JA[name] ?? name : name.replace(/^script /, "スクリプト ");
}

export function partText(lang: Lang, part: CheckPart): string {
  const { value, message, figures } = part;
  const said = lang === "ja" && figures ? ja(part) : undefined;
  return said ?? [engineText(lang, value), engineText(lang, message)].filter(Boolean).join("\n");
}

function ja({ name, ok, message, figures = {} }: CheckPart): string | undefined {
  const { free_mb, least_mb, load_percent, cores, most_percent, bodies, lack, silent, local } = figures;
  const lines = [
    free_mb !== undefined && `空き ${free_mb} MB`,
    !ok && least_mb !== undefined && `${least_mb} MB 以上の空きが必要です`,
    load_percent !== undefined && `コアあたり ${load_percent} %（${cores} コア）`,
    !ok && most_percent !== undefined && `${most_percent} % まで許可されています`,
    bodies !== undefined && String(bodies),
    lack !== undefined && `本体を開始できません: ${lack}`,
    name === "connection" && silent === 0 && "稼働中のワーカーがありません",
    name === "connection" && silent && `ワーカーが応答しません\n${silentJa(message)}`,
    local !== undefined &&
    `${local} はほかのマシンから届きません。そのワーカーの SCHEDULER_GRPC_HOST を設定してください`,
  ].filter((line) => typeof line === "string");
  return lines.length === 0 ? undefined : lines.join("\n");
}

/** Each worker with what calling it came to. */
function silentJa(message: string): string {
  const each = message.replace(/^no worker answers: /, "").split("; ");
  return each.map((one) => engineText("ja", one)).join("\n");
}

/** The first that failed, in one line; undefined: none did, or nothing is known. */
export function problemOf(
  lang: Lang,
  { status, max_concurrent, load, check_result, problem }: NodeListing,
): string | undefined {
  if (status === "busy" && max_concurrent !== null && load >= max_concurrent) {
    return lang === "ja" ? `満杯です（${load} / ${max_concurrent}）` : `full: ${load} of ${max_concurrent}`;
  }
  const failed = check_result?.parts?.find((part) => !part.ok);
  if (!failed) return problem ?? undefined;
  return `${partName(lang, failed.name)}: ${partText(lang, failed).replaceAll("\n", ", ")}`;
}
