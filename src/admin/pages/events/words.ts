/** Words of the pages about events. */
import { words } from "../../words.ts";

export const EVENTS = words({
  events: { en: "Events", ja: "イベント" },
  event: { en: (id: number) => `Event ${id}`, ja: (id) => `イベント ${id}` },
  none: {
    en: "No events yet. An event reports something that happened elsewhere, and starts the jobs that it triggers.",
    ja: "まだイベントがありません。イベントは外部の出来事を伝え、それを待つジョブを開始します。",
  },
  none_match: { en: "No event matches these conditions.", ja: "条件に合うイベントはありません。" },
  none_hint: { en: "Emit one:", ja: "発行するには:" },
  id: { en: "Event", ja: "番号" },
  type: { en: "Type", ja: "種類" },
  payload: { en: "Payload", ja: "ペイロード" },
  dedupe_key: { en: "Dedupe key", ja: "重複排除キー" },
  outcome: { en: "Outcome", ja: "結果" },
  at: { en: "Emitted", ja: "発行" },
  processed: { en: "Processed", ja: "処理" },
  which: { en: "Which", ja: "対象" },
  unprocessed_only: { en: "only unprocessed", ja: "未処理のみ" },
  unprocessed: { en: "not processed yet", ja: "未処理" },
  unprocessed_hint: {
    en: "The leader creates its runs at the next tick. If the event stays unprocessed, there is no leader.",
    ja: "リーダーが次の周期で実行を作成します。このままならリーダーがいません。",
  },
  nothing: { en: "no run", ja: "実行なし" },
  nobody: { en: "No job is triggered by events of this type.", ja: "この種類のイベントを待つジョブはありません。" },
  filtered: {
    en: "did not match the job's condition (where), or the job was disabled or not yet synced",
    ja: "ジョブの条件（where）に合わないか、当時ジョブが無効または未登録でした",
  },
  debounced: {
    en: "debounced: replaced by a later event of its key",
    ja: "デバウンス: 同じキーの後のイベントに置き換わりました",
  },
  throttled: {
    en: "throttled: a run of its key started shortly before",
    ja: "スロットル: 同じキーの実行が直前にありました",
  },
  own_run: { en: "a run of its own", ja: "このイベントの実行" },
  job: { en: "Job", ja: "ジョブ" },
  rule: { en: "The job's rule now", ja: "現在の規則" },
  run: { en: "Run", ja: "実行" },
  details: { en: "Details", ja: "詳細" },

  emit: { en: "Emit an event", ja: "イベントを発行" },
  emit_text: {
    en:
      "It starts the jobs that its type triggers, as if a program had emitted it. With a dedupe key, a second event with the same key is ignored.",
    ja:
      "プログラムが発行した場合と同じく、この種類を待つジョブを開始します。重複排除キーを付けると、同じキーの二つ目は追加されません。",
  },
  emit_again: { en: "Emit again, edited", ja: "編集して再発行" },
  emit_refused: { en: "Nothing was emitted", ja: "発行していません" },
  emit_done: { en: (id: number) => `Event ${id} is emitted`, ja: (id) => `イベント ${id} を発行しました` },
  emit_unfit: {
    en: (id: number, jobs: number, names: string) =>
      `Event ${id} is emitted, but its payload matches none of the ${jobs} jobs that its type triggers: ${names}`,
    ja: (id, jobs, names) =>
      `イベント ${id} を発行しましたが、ペイロードはこの種類を待つジョブ（${jobs} 件）のどれにも合いません: ${names}`,
  },
  emit_known: {
    en: (id: number) => `The dedupe key was used before, by event ${id}`,
    ja: (id) => `重複排除キーは使用済みです。これはその時のイベント ${id} です`,
  },
});
