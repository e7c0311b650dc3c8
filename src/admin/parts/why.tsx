/** Why something waits, in the viewer's language and zone: by the code of the reason, and by its sentence where that is unknown. */
import {
  type NoCode,
  noCodeText,
  type NodeProblem,
  type RunWait,
  versionOf,
  type Wait,
  type Waits,
} from "../../runs/wait_reason.ts";
import { othersJa } from "./code_text.ts";
import { link, type RequestContext } from "../request_context.ts";
import { engineText } from "./engine_text.ts";
import { partName, partText } from "./part_text.ts";
import { timeText } from "./time.tsx";
import type { Lang } from "../../locale/locale.ts";

type Said = { [Code in Wait["code"]]: (wait: Extract<Wait, { code: Code }>, when: (at: string) => string) => string };

const SAID: Record<Lang, Said> = {
  en: {
    dispatch_paused: () => "all dispatch is paused; resume it on the Queue page",
    job_removed: ({ job_name }) => `the file of job "${job_name}" was removed; put it back and sync, or cancel the run`,
    job_paused: ({ job_name, by, reason }) => `job "${job_name}" is paused${because(by, reason)}`,
    job_limit: ({ job_name, running, limit }) =>
      `limit: ${running} of at most ${limit} runs of job "${job_name}" are active`,
    rate: ({ job_name, count, seconds }) => `rate: job "${job_name}" starts at most ${count} runs in ${seconds} s`,
    resource_unknown: ({ resource }) => `resource "${resource}" is not set; set it on the Queue page`,
    resource_short: ({ resource, needed, free, capacity }) =>
      `resource "${resource}": ${needed} needed, ${free} of ${capacity} free`,
    nobody_there: ({ node }) => `no worker is alive${there(node)}`,
    maintenance: ({ nodes, by, reason }) => `in maintenance: ${nodes.join(", ")}${because(by, reason)}`,
    unavailable: ({ nodes, problem }) => `unavailable: ${nodes.join(", ")} (${problem})`,
    busy: ({ nodes, problem }) => `busy: ${nodes.join(", ")} (${problem})`,
    none_takes_work: ({ node }) =>
      `no worker${there(node)} takes work: all are draining, detached, leading or not answering`,
    node_full: ({ node, load, limit }) => `node "${node}" is full: ${load} of ${limit}`,
    no_slot: ({ node }) => `no free slot${there(node)}`,
    no_code: (wait) => noCodeText(wait),
    canceling: ({ by }) => `about to be canceled, requested by ${by}`,
    retry_at: ({ at }, when) => `next attempt at ${when(at)}`,
    due_at: ({ at }, when) => `due at ${when(at)}`,
    suspended: ({ waits, number }, when) => suspendedEn(waits, number, when),
    no_worker: () => "no worker is alive; start one: deno task worker",
    no_leader: () => "no leader; an election is under way",
    key_stopped: ({ serial_key, by, reason }) => `serial key "${serial_key}" is paused${because(by, reason)}`,
    behind_run: ({ run_id, serial_key }) => `behind run ${run_id} of serial key "${serial_key}"`,
    key_limit: ({ key, running, limit }) => `limit: ${running} of at most ${limit} runs of "${key}" are active`,
    bulk_paused: ({ bulk_id, by, reason }) => `bulk ${bulk_id} is paused${because(by, reason)}`,
    bulk_canceled: ({ bulk_id }) => `bulk ${bulk_id} is canceled`,
    bulk_full: ({ bulk_id, running, limit }) => `bulk ${bulk_id} runs ${running} of at most ${limit} at once`,
    other_node: ({ node }) => `failed on node "${node}"; waiting for a free slot on another node`,
    next: () => "next, once the runs before it have started",
    bulk_ending: () => "canceled; its runs are being stopped",
    behind_bulk: ({ bulk_id, serial_key }) => `behind bulk ${bulk_id} of serial key "${serial_key}"`,
    interval: ({ at }, when) => `interval: the next batch starts at ${when(at)}`,
  },
  ja: {
    dispatch_paused: () => "すべての割り当てを停止中です（キューのページで再開できます）",
    job_removed: ({ job_name }) =>
      `ジョブ ${job_name} のファイルが削除されています。戻して同期するか、取り消してください`,
    job_paused: ({ job_name, by, reason }) => `ジョブ ${job_name} は一時停止中です${becauseJa(by, reason)}`,
    job_limit: ({ job_name, running, limit }) => `上限：ジョブ ${job_name} は ${running} 件実行中（最大 ${limit} 件）`,
    rate: ({ job_name, count, seconds }) => `速度制限：ジョブ ${job_name} は ${seconds} 秒に ${count} 件まで開始します`,
    resource_unknown: ({ resource }) => `リソース ${resource} は未登録です（キューのページで設定できます）`,
    resource_short: ({ resource, needed, free, capacity }) =>
      `リソース ${resource} 不足：必要 ${needed}、空き ${free}（全 ${capacity}）`,
    nobody_there: ({ node }) => `${thereJa(node)}稼働中のワーカーがありません`,
    maintenance: ({ nodes, by, reason }) => `ノード ${nodes.join("、")} はメンテナンス中です${becauseJa(by, reason)}`,
    unavailable: (waits) => `ノード ${waits.nodes.join("、")} は利用できません（${foundJa(waits)}）`,
    busy: (waits) => `ノード ${waits.nodes.join("、")} は高負荷です（${foundJa(waits)}）`,
    none_takes_work: ({ node }) =>
      `${
        thereJa(node)
      }実行を受け付けるワーカーがありません（ドレイン中、切り離し済み、リーダーに専念中、または応答なし）`,
    node_full: ({ node, load, limit }) => `ノード ${node} は満杯です（${load} / ${limit}）`,
    no_slot: ({ node }) => `${thereJa(node)}空きスロットがありません`,
    no_code: noCodeJa,
    canceling: ({ by }) => `${by} の要求により、まもなく取り消されます`,
    retry_at: ({ at }, when) => `次の試行は ${when(at)} です`,
    due_at: ({ at }, when) => `${when(at)} に開始予定です`,
    suspended: ({ waits, number }, when) => suspendedJa(waits, number, when),
    no_worker: () => "稼働中のワーカーがありません。起動するには deno task worker",
    no_leader: () => "リーダーが不在です。選出中です",
    key_stopped: ({ serial_key, by, reason }) => `直列キー ${serial_key} は停止中です${becauseJa(by, reason)}`,
    behind_run: ({ run_id, serial_key }) => `直列キー ${serial_key} の実行 ${run_id} の後に開始します`,
    key_limit: ({ key, running, limit }) => `上限：${key} は ${running} 件実行中（最大 ${limit} 件）`,
    bulk_paused: ({ bulk_id, by, reason }) => `一括 ${bulk_id} は一時停止中です${becauseJa(by, reason)}`,
    bulk_canceled: ({ bulk_id }) => `一括 ${bulk_id} は取り消されました`,
    bulk_full: ({ bulk_id, running, limit }) => `一括 ${bulk_id} は ${running} 件実行中（同時に最大 ${limit} 件）`,
    other_node: ({ node }) => `ノード ${node} で失敗したため、別のノードの空きを待っています`,
    next: () => "前の実行が開始されしだい、次に開始します",
    bulk_ending: () => "取り消されました。実行を終了させています",
    behind_bulk: ({ bulk_id, serial_key }) => `直列キー ${serial_key} の一括 ${bulk_id} の後に始まります`,
    interval: ({ at }, when) => `間隔待ち：次の投入は ${when(at)} です`,
  },
};

const KIND: Record<Lang, Record<RunWait["kind"], (name: string) => string>> = {
  en: {
    sleep: (name) => `sleep ${name}`,
    message: (name) => `message "${name}"`,
    event: (name) => `an event of type "${name}"`,
    call: (name) => `the run it called (${name})`,
    bulk: (name) => `the bulk it called (${name})`,
    retry: (name) => `the next try of step "${name}"`,
  },
  ja: {
    sleep: (name) => `スリープ ${name}`,
    message: (name) => `メッセージ ${name}`,
    event: (name) => `種類 ${name} のイベント`,
    call: (name) => `呼び出した実行（${name}）`,
    bulk: (name) => `呼び出した一括（${name}）`,
    retry: (name) => `ステップ ${name} の再試行`,
  },
};

function suspendedEn(waits: RunWait[], number: number, when: (at: string) => string): string {
  const each = waits.map(({ kind, name, until }) => `${KIND.en[kind](name)}${until ? ` until ${when(until)}` : ""}`);
  const more = number > waits.length ? ` and ${number - waits.length} more` : "";
  return each.length === 0 ? "suspended" : `suspended, waiting for ${each.join(", ")}${more}`;
}

function suspendedJa(waits: RunWait[], number: number, when: (at: string) => string): string {
  const each = waits.map(({ kind, name, until }) => `${KIND.ja[kind](name)}${until ? `（${when(until)} まで）` : ""}`);
  const more = number > waits.length ? `ほか ${number - waits.length} 件` : "";
  return each.length === 0 ? "休止中です" : `休止中です。待っているもの：${each.join("、")}${more}`;
}

/** `text`, which is English, only where the code is of another version. */
export function whyText(on: RequestContext, waits: Waits): string {
  const when = (at: string) => timeText(new Date(at), on.zone);
  const code = waits.code;
  if (code === undefined || !Object.hasOwn(SAID[on.lang], code)) return waits.text;
  return (SAID[on.lang][code] as (wait: Waits, when: (at: string) => string) => string)(waits, when);
}

/** With a way to what it waits for. */
export function Why({ on, waits }: { on: RequestContext; waits: Waits }) {
  const to = placeOf(waits);
  return (
    <>
      {whyText(on, waits)}
      {to && to !== on.path && (
        <>
          {" "}
          <a href={link(on, to)}>{placeText(on.lang, to)}</a>
        </>
      )}
    </>
  );
}

function placeOf(waits: Waits): string | undefined {
  switch (waits.code) {
    case "behind_run":
      return `/runs/${waits.run_id}`;
    case "bulk_paused":
    case "bulk_full":
    case "behind_bulk":
      return `/bulks/${waits.bulk_id}`;
    case "job_paused":
    case "job_limit":
    case "rate":
      return `/jobs/${waits.job_name}`;
    case "dispatch_paused":
    case "key_stopped":
    case "resource_unknown":
    case "resource_short":
      return "/queue";
    case "nobody_there":
    case "maintenance":
    case "unavailable":
    case "busy":
    case "none_takes_work":
    case "node_full":
    case "no_slot":
    case "no_code":
    case "no_leader":
      return "/nodes";
  }
}

const PLACES_JA: Record<string, string> = {
  runs: "実行",
  bulks: "一括",
  jobs: "ジョブ",
  queue: "キュー",
  nodes: "ノード",
};

/** "runs/811" as a link says it. */
function placeText(lang: Lang, path: string): string {
  if (lang === "en") return path.slice(1);
  const [, page = "", name] = path.split("/");
  return [PLACES_JA[page] ?? page, name].filter(Boolean).join(" ");
}

/** Without what was found, of a leader of another version, it is as that said it. */
function foundJa({ problem, found }: { problem: string; found?: NodeProblem[] }): string {
  if (found === undefined) return problem;
  const text = ({ failed, checked }: NodeProblem) =>
    failed
      ? `${partName("ja", failed.name)}：${partText("ja", failed).replaceAll("\n", "、")}`
      : checked
      ? "理由は分かりません"
      : "確認がまだ終わっていません";
  return found.map((one) => found.length === 1 ? text(one) : `${one.node} ${text(one)}`).join("／");
}

function noCodeJa({ job_name, digest, node = "", having = 0, only_leader = false, others }: NoCode): string {
  const what = `ジョブ ${job_name} の版 ${versionOf(digest)}`;
  if (having > 0) {
    return `${thereJa(node)}${what} を持つワーカー（${having} 台）に空きスロットがありません${othersJa(others)}`;
  }
  const leader = only_leader ? "。リーダーは持っていますが、設定 leader_runs_jobs により実行しません" : "";
  return `${thereJa(node)}${what} を持つワーカーがありません${othersJa(others)}${leader}`;
}

function there(node: string): string {
  return node === "" ? "" : node.includes("=") ? ` with labels ${node}` : ` on node "${node}"`;
}

function thereJa(node: string): string {
  return node === "" ? "" : node.includes("=") ? `ラベル ${node} のノードに` : `ノード ${node} に`;
}

function because(by: string | null, reason: string | null): string {
  return `${by === null ? "" : ` by ${by}`}${reason ? `: ${reason}` : ""}`;
}

function becauseJa(by: string | null, reason: string | null): string {
  const said = [by, reason && engineText("ja", reason)].filter(Boolean).join("：");
  return said === "" ? "" : `（${said}）`;
}
