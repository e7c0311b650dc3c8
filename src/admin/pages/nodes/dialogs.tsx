/** Acts on a node's workers or on one of them, each naming the runs that it touches. */
import type { RunView } from "../../../runs/run_view.ts";
import { State } from "../../parts/badge.tsx";
import { ConfirmDialog } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { link, type RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

/** Each is there also where its button is not just now: the button comes and goes while the page is live. */
export function WorkDialogs(
  { on, path, name, runs }: { on: RequestContext; path: string; name: string; runs: RunView[] },
) {
  return (
    <>
      <ConfirmDialog
        on={on}
        id="drain"
        title={t(on, "nodes.drain_title", { id: name })}
        action={`${path}/drain`}
        verb={t(on, "nodes.drain")}
      >
        <p>{t(on, "nodes.drain_text")}</p>
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="undrain"
        title={t(on, "nodes.undrain_title", { id: name })}
        action={`${path}/undrain`}
        verb={t(on, "nodes.undrain")}
      >
        <p>{t(on, "nodes.undrain_text")}</p>
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="detach"
        title={t(on, "nodes.detach_title", { id: name })}
        action={`${path}/detach`}
        verb={t(on, "nodes.detach")}
        danger
      >
        <p>{t(on, "nodes.detach_text")}</p>
        <Live on={on} id="touched" topics={["nodes", "runs"]}>
          {runs.length > 0 && <strong>{t(on, "nodes.touches", { n: runs.length })}</strong>}
          {runs.length > 0 && (
            <ul class="touched">
              {runs.map((run) => (
                <li>
                  <a href={link(on, `/runs/${run.id}`)}>{run.id}</a> {run.job_name} <State state={run.state} />
                </li>
              ))}
            </ul>
          )}
        </Live>
      </ConfirmDialog>
    </>
  );
}
