/** Acts on a node's workers or on one of them, each naming the runs that it touches. */
import type { RunView } from "../../../runs/run_view.ts";
import { State } from "../../parts/badge.tsx";
import { ConfirmDialog } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { link, type RequestContext } from "../../request_context.ts";
import { NODES } from "./words.ts";

/** Each is there also where its button is not just now: the button comes and goes while the page is live. */
export function WorkDialogs(
  { on, path, name, runs }: { on: RequestContext; path: string; name: string; runs: RunView[] },
) {
  const say = NODES[on.lang];
  return (
    <>
      <ConfirmDialog on={on} id="drain" title={say.drain_title(name)} action={`${path}/drain`} verb={say.drain}>
        <p>{say.drain_text}</p>
      </ConfirmDialog>
      <ConfirmDialog on={on} id="undrain" title={say.undrain_title(name)} action={`${path}/undrain`} verb={say.undrain}>
        <p>{say.undrain_text}</p>
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="detach"
        title={say.detach_title(name)}
        action={`${path}/detach`}
        verb={say.detach}
        danger
      >
        <p>{say.detach_text}</p>
        <Live on={on} id="touched" topics={["nodes", "runs"]}>
          {runs.length > 0 && <strong>{say.touches(runs.length)}</strong>}
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
