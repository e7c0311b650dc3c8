/** That nothing starts, whatever waits: by whom, since when and why, so that nobody looks for another cause. */
import { type AuditEntry, listAudit } from "../../access/audit.ts";
import { readSettings } from "../../settings/settings.ts";
import { link, type RequestContext } from "../request_context.ts";
import { words } from "../words.ts";
import { engineText } from "./engine_text.ts";
import { Time } from "./time.tsx";

const WORDS = words({
  paused: {
    en: "All dispatch is paused: no runs start; running bodies go on.",
    ja: "すべての割り当てを停止中です。新しい実行は始まりません（実行中のものは続きます）。",
  },
  by: {
    en: (who: string, why: string) => `By ${who}${why && `: ${why}`}`,
    ja: (who, why) => `停止者：${who}${why && `（${why}）`}`,
  },
  queue: { en: "Queue", ja: "キュー" },
});

/** `said`: the act that did it; undefined: plain SQL. */
export interface Dispatch {
  paused: boolean;
  said: AuditEntry | undefined;
}

export async function readDispatch({ sql }: RequestContext): Promise<Dispatch> {
  const paused = (await readSettings(sql)).dispatch === "paused";
  const of = { target_type: "setting", target_id: "dispatch", most: 1 };
  return { paused, said: paused ? (await listAudit(sql, of))[0] : undefined };
}

export function DispatchPaused({ on, dispatch: { paused, said } }: { on: RequestContext; dispatch: Dispatch }) {
  if (!paused) return null;
  const say = WORDS[on.lang];
  return (
    <div class="problem" role="alert">
      <strong>{say.paused}</strong> {on.path !== "/queue" && <a href={link(on, "/queue")}>{say.queue}</a>}
      {said && (
        <div>
          {say.by(said.actor, engineText(on.lang, said.reason ?? ""))} <Time on={on} at={said.at} />
        </div>
      )}
    </div>
  );
}
