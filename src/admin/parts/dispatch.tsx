/** That nothing starts, whatever waits: by whom, since when and why, so that nobody looks for another cause. */
import { type AuditEntry, listAudit } from "../../access/audit.ts";
import { readSettings } from "../../settings/settings.ts";
import { link, type RequestContext } from "../request_context.ts";
import { Time } from "./time.tsx";
import { saidText, t } from "../../locale/locale.ts";

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
  return (
    <div class="problem" role="alert">
      <strong>{t(on, "dispatch.paused")}</strong>{" "}
      {on.path !== "/queue" && <a href={link(on, "/queue")}>{t(on, "dispatch.queue")}</a>}
      {said && (
        <div>
          {t(on, "dispatch.by", { who: said.actor, why: saidText(on, said.reason ?? "") })}{" "}
          <Time on={on} at={said.at} />
        </div>
      )}
    </div>
  );
}
