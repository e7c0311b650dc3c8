/** The group of each setting on the page, and its description in Japanese. The English one is in settings/setting_list.ts. */
import type { Settings } from "../../../settings/settings.ts";
import type { Lang } from "../../../locale/locale.ts";

export const GROUPS = ["leader", "workers", "dispatch", "nodes", "alerts", "retention", "statistics"] as const;
export type Group = typeof GROUPS[number];

export const GROUP_NAMES: Record<Group, Record<Lang, string>> = {
  leader: { en: "Leadership", ja: "リーダー" },
  workers: { en: "Workers and their leases", ja: "ワーカーとリース" },
  dispatch: { en: "Giving out work", ja: "ジョブの割り当て" },
  nodes: { en: "Checks of nodes", ja: "ノードの確認" },
  alerts: { en: "Alerts", ja: "アラート" },
  retention: { en: "How long things are kept", ja: "保存期間" },
  statistics: { en: "Statistics", ja: "統計" },
};

/** A setting without a line here does not compile. Those that relate to each other stand in one group, to be changed together. */
export const ABOUT: Record<keyof Settings, { group: Group; ja: string }> = {
  leader_tick_seconds: { group: "leader", ja: "リーダーのティックの最長間隔" },
  leader_lease_seconds: { group: "leader", ja: "リーダーが任期を更新しないままこの時間が過ぎると、任期を失います" },
  leader_failing_seconds: {
    group: "leader",
    ja:
      "ティックがこの時間続けて失敗したリーダーは、他のワーカーがあれば降格します。同じワーカーで繰り返すたびに 2 倍になります",
  },
  leader_stale_seconds: {
    group: "leader",
    ja:
      "この時間応答のないリーダーに降格を求めます。候補は Redis の内容にかかわらず、この間隔で Postgres に問い合わせます",
  },
  leader_runs_jobs: {
    group: "leader",
    ja:
      "リーダー自身がジョブを実行するか：never 実行しない、alone 引き受けるワーカーが他にいない実行だけ（唯一のワーカー、または指定ノードで唯一のワーカーのとき）、always 常に実行する",
  },
  heartbeat_interval_seconds: { group: "workers", ja: "ワーカーが Redis にハートビートを送る間隔" },
  heartbeat_ttl_seconds: { group: "workers", ja: "ハートビートの有効期間" },
  worker_detach_grace_seconds: {
    group: "workers",
    ja: "呼び出しもハートビートもこの時間失敗したワーカーを切り離します",
  },
  worker_lease_seconds: {
    group: "workers",
    ja: "Postgres のリースをこの時間更新しないワーカーは停止とみなし、実行を他のワーカーに割り当てます",
  },
  worker_renew_seconds: { group: "workers", ja: "ワーカーがリースを更新する間隔" },
  worker_margin_seconds: { group: "workers", ja: "ワーカーはリース終了のこの時間前に本体を停止します" },
  continuation_retry_count: {
    group: "workers",
    ja: "ワーカーが実行を止める前に、リーダーまたはサブリーダーにリースの確認を求める回数",
  },
  continuation_retry_interval_seconds: { group: "workers", ja: "リースの確認を求める間隔" },
  drain_grace_seconds: { group: "workers", ja: "停止するワーカーが、本体の終了を待つ時間" },
  dispatch: { group: "dispatch", ja: "paused：どのジョブの待機中の実行もワーカーに渡しません" },
  max_jobs_per_worker: {
    group: "dispatch",
    ja: "ワーカーが同時に実行する本体の数（SCHEDULER_SLOTS の指定があればそちら）",
  },
  spare_processes: { group: "dispatch", ja: "ワーカーが次の本体のために用意しておくプロセス数" },
  assign_ahead_seconds: {
    group: "dispatch",
    ja: "時刻の決まった実行をこの時間だけ前に空いたワーカーへ割り当て、プロセスを読み込んでおきます。0：しない",
  },
  reassign_after_seconds: {
    group: "dispatch",
    ja: "割り当て後この時間内に開始しない実行は、別のワーカーに渡します",
  },
  suspect_seconds: {
    group: "dispatch",
    ja: "呼び出しに失敗したワーカーにこの時間仕事を渡しません。失敗のたびに倍になります",
  },
  skip_late_runs_after_seconds: {
    group: "dispatch",
    ja: "スケジュールの実行がこれだけ遅れると SKIPPED になります。0：しない",
  },
  node_check_seconds: { group: "nodes", ja: "利用可能なノードを確認する間隔" },
  node_retry_seconds: { group: "nodes", ja: "確認に失敗したノードを再確認するまでの時間" },
  node_retry_count: { group: "nodes", ja: "node_recheck_seconds に切り替わるまでに再確認する回数" },
  node_recheck_seconds: { group: "nodes", ja: "利用できないままのノードを、回復するまで確認する間隔" },
  node_script_seconds: {
    group: "nodes",
    ja: "SCHEDULER_CHECKS_DIR の各スクリプトの制限時間",
  },
  node_max_load_percent: {
    group: "nodes",
    ja: "コアあたりの負荷平均がこれを超えるノードは busy となり、新しい仕事を渡しません。0：しない",
  },
  node_min_free_disk_mb: {
    group: "nodes",
    ja: "ワーカーの状態を置く場所の空きがこれより少ないノードは unavailable です。0：しない",
  },
  alert_overdue_seconds: {
    group: "alerts",
    ja: "開始できる実行が、期限からこの時間開始されなければアラートを出します",
  },
  alert_no_code_seconds: {
    group: "alerts",
    ja: "同期したジョブの版を持つワーカーがこの時間なければアラートを出します",
  },
  alert_no_leader_seconds: { group: "alerts", ja: "リーダーがこの時間不在ならアラートを出します" },
  alert_certificate_days: { group: "alerts", ja: "証明書の残り日数がこれより少ないとアラートを出します" },
  alert_clock_skew_seconds: {
    group: "alerts",
    ja: "データベースとの時計の差がこれより大きいとアラートを出します",
  },
  log_retention_days_db: {
    group: "retention",
    ja: "実行の終了後、ログの行を Postgres に残す日数。その後は old_logs に従います。0：ずっと残す",
  },
  old_logs: {
    group: "retention",
    ja:
      "log_retention_days_db を過ぎたログの行：archive は SCHEDULER_ARCHIVE へ移します（設定がなければ残します）。delete は完全に削除します",
  },
  run_retention_days: {
    group: "retention",
    ja:
      "終了した実行を、試行・ログとともに残す日数。一括とイベントも実行とともに削除します。各ジョブの最後の実行は残します。0：ずっと残す",
  },
  stat_interval_seconds: {
    group: "statistics",
    ja: "リーダーが統計を更新し、アラートを判定する間隔",
  },
  stat_minute_days: { group: "statistics", ja: "1 分・10 分ごとの統計を保存する日数" },
  stat_hour_days: { group: "statistics", ja: "1 時間ごとの統計とアラートを保存する日数" },
};

const UNITS: Record<string, Record<Lang, string>> = {
  seconds: { en: "s", ja: "秒" },
  days: { en: "days", ja: "日" },
  db: { en: "days", ja: "日" },
  percent: { en: "%", ja: "%" },
  mb: { en: "MB", ja: "MB" },
  count: { en: "times", ja: "回" },
  worker: { en: "bodies", ja: "本体" },
  processes: { en: "processes", ja: "プロセス" },
};

/** By the last part of its name. */
export function unitOf(name: string, lang: Lang): string {
  return UNITS[name.split("_").at(-1) ?? ""]?.[lang] ?? "";
}
