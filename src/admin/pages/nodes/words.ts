/** Words of the pages about nodes and workers. */
import { counted } from "../../../platform/text.ts";
import { words } from "../../words.ts";

export const NODES = words({
  title: { en: "Nodes and workers", ja: "ノードとワーカー" },
  node: { en: "Node", ja: "ノード" },
  nodes: { en: "Nodes", ja: "ノード" },
  worker: { en: "Worker", ja: "ワーカー" },
  workers: { en: "Workers", ja: "ワーカー" },
  no_nodes: { en: "No nodes yet.", ja: "ノードはまだありません。" },
  no_workers: { en: "No worker is alive.", ja: "動作中のワーカーはありません。" },
  start: { en: "Start one:", ja: "開始するには:" },

  leader: { en: "Leader", ja: "リーダー" },
  no_leader: {
    en: "No leader: no new runs start until a worker leads.",
    ja: "リーダーが不在です。選出されるまで新しい割り当ては行われません。",
  },
  epoch: { en: "epoch", ja: "エポック" },
  since: { en: "since", ja: "開始" },
  failovers: {
    en: (n: number) => `${counted(n, "failover")} so far`,
    ja: (n) => `これまでの交代（フェイルオーバー）${n} 回`,
  },
  steps_down: { en: "Asked to step down", ja: "降格を要求済みです" },
  degrade: { en: "Degrade the leader", ja: "リーダーを降格" },
  degrade_title: { en: (id: string) => `Make ${id} step down?`, ja: (id) => `${id} を降格しますか？` },
  degrade_text: {
    en: (node: string) =>
      `The worker on ${node} stops leading at once and another one takes over. Runs go on. If there is no other worker, it leads again after its lease ends.`,
    ja: (node) =>
      `${node} のワーカーは直ちにリーダーを降り、別のワーカーが引き継ぎます。実行中のジョブは続きます。他にワーカーがいなければ、リース後に再びリーダーになります。`,
  },
  degrade_done: { en: (id: string) => `${id} steps down`, ja: (id) => `${id} が降格します` },

  status: { en: "Status", ja: "状態" },
  maintenance: { en: "maintenance", ja: "メンテナンス" },
  checking: { en: "checking", ja: "確認中" },
  never: { en: "no check has passed yet", ja: "確認がまだ通っていません" },
  load: { en: "Load", ja: "負荷" },
  labels: { en: "Labels", ja: "ラベル" },
  last_check: { en: "Last check", ja: "最後の確認" },
  next_check: { en: "Next check", ja: "次の確認" },
  failed_checks: { en: "Consecutive failures", ja: "連続失敗" },
  why: { en: "Why", ja: "理由" },
  role: { en: "Role", ja: "役割" },
  state: { en: "State", ja: "状態" },
  version: { en: "Version", ja: "バージョン" },
  started: { en: "Started", ja: "開始" },
  seen: { en: "Last seen", ja: "最終確認" },
  ended: { en: "Ended", ja: "終了" },
  lease: { en: "Lease until", ja: "リース期限" },
  address: { en: "Address", ja: "アドレス" },
  pid: { en: "Process", ja: "プロセス" },
  fingerprint: { en: "Certificate", ja: "証明書" },
  expires: { en: "Certificate until", ja: "証明書の期限" },
  skew: { en: "Clock skew", ja: "時計のずれ" },
  skew_text: {
    en: (ms: number) => `${Math.abs(ms)} ms ${ms < 0 ? "behind" : "ahead of"} the database`,
    ja: (ms) => `データベースより ${Math.abs(ms)} ms ${ms < 0 ? "遅れ" : "進み"}`,
  },
  detached_by: {
    en: (who: string, why: string) => `Detached by ${who}: ${why}`,
    ja: (who, why) => `${who} が切り離し：${why}`,
  },
  files: { en: "Job files", ja: "ジョブファイル" },
  as_synced: { en: "as synced", ja: "同期どおり" },
  differ: { en: (n: number) => `${n} differ`, ja: (n) => `${n} 件相違` },
  other_files: { en: "Job files that differ from the synced version", ja: "同期内容と異なるジョブファイル" },
  other_files_text: {
    en: "This worker does not run these jobs until its files match the synced version or are synced again.",
    ja: "ファイルが同期内容と一致するか、あらためて同期されるまで、これらのジョブはここでは実行されません。",
  },
  first_jobs: { en: (n: number) => `the first ${n}`, ja: (n) => `先頭 ${n} 件` },
  synced: { en: "Synced", ja: "同期済み" },
  found_here: { en: "Here", ja: "このワーカー" },
  details: { en: "Details", ja: "詳細" },
  runs: { en: "Current runs", ja: "現在の実行" },
  no_runs: { en: "No current runs.", ja: "現在の実行はありません。" },
  first_runs: { en: (n: number) => `the first ${n}`, ja: (n) => `先頭 ${n} 件` },
  run: { en: "Run", ja: "実行" },
  job: { en: "Job", ja: "ジョブ" },
  took: { en: "Took", ja: "所要" },
  resources: { en: "Resources", ja: "リソース" },
  resource: { en: "Resource", ja: "リソース" },
  taken: { en: "In use", ja: "使用中" },
  history: { en: "History", ja: "操作履歴" },

  parts: { en: "Result of the last check", ja: "最後の確認の結果" },
  no_check: { en: "Not checked yet.", ja: "まだ確認していません。" },
  checked_by: { en: "asked:", ja: "確認先：" },
  part: { en: "Part", ja: "項目" },
  ok: { en: "ok", ja: "正常" },
  failed: { en: "failed", ja: "失敗" },
  found: { en: "Found", ja: "結果" },
  says: { en: "Message", ja: "内容" },
  check_took: { en: "Took", ja: "所要" },
  under_way: {
    en: "The leader is checking the node; the result appears here.",
    ja: "リーダーが確認中です。結果は自動で表示されます。",
  },
  test: { en: "Test connection", ja: "接続テスト" },
  test_done: { en: "Asked the leader for a check", ja: "リーダーに確認を要求しました" },
  test_no_leader: {
    en: "There is no leader to check the node: start a worker",
    ja: "リーダーが不在のため確認できません。ワーカーを起動してください",
  },

  change: { en: "Change", ja: "変更" },
  change_title: { en: (id: string) => `Change node ${id}`, ja: (id) => `ノード ${id} の変更` },
  max_concurrent: {
    en: "Runs at once (empty: the slots of its workers)",
    ja: "同時実行数（空：ワーカーの上限まで）",
  },
  labels_field: { en: "Labels, such as gpu=a100, zone=tokyo", ja: "ラベル（例：gpu=a100, zone=tokyo）" },
  change_done: { en: (id: string) => `Node ${id} is changed`, ja: (id) => `ノード ${id} を変更しました` },
  change_same: { en: "Nothing changed", ja: "変更はありません" },
  bad_limit: {
    en: (text: string) => `Cannot use "${text}" as a limit: give a whole number from 0 to 100000, or nothing`,
    ja: (text) => `上限「${text}」は使用できません。0 から 100000 の整数か、空にしてください`,
  },
  bad_label: {
    en: (text: string) => `Cannot use label "${text}": give name=value without spaces, separated by commas`,
    ja: (text) => `ラベル「${text}」は使用できません。空白のない name=value をカンマで区切ってください`,
  },

  on: { en: "Maintenance on", ja: "メンテナンス開始" },
  on_title: { en: (id: string) => `Put ${id} into maintenance?`, ja: (id) => `${id} をメンテナンスにしますか？` },
  on_text: {
    en:
      "It gets no new runs until maintenance ends, and is checked only when you test the connection. Its current runs go on.",
    ja: "解除するまで新しい実行を受けません。確認は接続テストを押したときだけ行います。実行中のものは続きます。",
  },
  off: { en: "Maintenance off", ja: "メンテナンス解除" },
  off_title: {
    en: (id: string) => `End the maintenance of ${id}?`,
    ja: (id) => `${id} のメンテナンスを解除しますか？`,
  },
  off_text: {
    en: "It is checked at once, and gets runs when the check passes.",
    ja: "直ちに確認し、通れば実行を受けます。",
  },
  remove: { en: "Remove", ja: "削除" },
  remove_title: { en: (id: string) => `Remove node ${id}?`, ja: (id) => `ノード ${id} を削除しますか？` },
  remove_text: {
    en:
      "For a node that is gone for good: the node, its dead workers, its limit and its labels are removed; its runs stay. Runs pinned to it wait. A worker that starts there registers it again.",
    ja:
      "もう使わないノードを、停止済みのワーカー・上限・ラベルとともに一覧から除きます。実行の履歴は残り、このノードを指定した実行は待ち続けます。ワーカーが起動すれば再び登録されます。",
  },
  remove_done: { en: (id: string) => `Node ${id} is removed`, ja: (id) => `ノード ${id} を削除しました` },
  drain: { en: "Drain", ja: "ドレイン" },
  drain_title: { en: (id: string) => `Drain ${id}?`, ja: (id) => `${id} をドレインしますか？` },
  drain_text: {
    en: "It takes no new runs. Its current runs go on to their end.",
    ja: "新しい実行を受けません。実行中のものは最後まで続きます。",
  },
  undrain: { en: "Undrain", ja: "ドレイン解除" },
  undrain_title: { en: (id: string) => `Let ${id} take runs again?`, ja: (id) => `${id} の受付を再開しますか？` },
  undrain_text: { en: "It takes new runs again.", ja: "新しい実行を再び受けます。" },
  detach: { en: "Detach", ja: "切り離し" },
  detach_title: { en: (id: string) => `Detach ${id}?`, ja: (id) => `${id} を切り離しますか？` },
  detach_text: {
    en:
      "It starts nothing more, and its unstarted runs go to other workers. Running bodies go on only while the leader or a subleader confirms them. Then it returns under a new id.",
    ja:
      "新しい実行は始めず、未開始のものは他へ移します。実行中の本体はリーダーかサブリーダーが確認できる間だけ続き、その後は新しい番号で復帰します。",
  },
  touches: { en: (n: number) => `It has ${n} now:`, ja: (n) => `現在の実行 ${n} 件：` },
  moved: {
    en: (verb: string, names: string) => `${verb}: ${names}`,
    ja: (verb, names) => `${verb}：${names}`,
  },
  not_told: {
    en: "The workers learn of this at their next lease renewal",
    ja: "次のリース更新時に伝わります",
  },
});
