/** One worker: its state and role, what it carries, how it is known and reached, and what can be done to it. */
import { addressText } from "../../../platform/text.ts";
import { readWorker, type WorkerListing } from "../../../nodes/workers.ts";
import { listCarried } from "../../../runs/run_view.ts";
import { readSettings, type Settings } from "../../../settings/settings.ts";
import { DialogButton } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { KeyValues, Problem } from "../../parts/notes.tsx";
import { Time } from "../../parts/time.tsx";
import { link, may, type Page, PageError, type RequestContext } from "../../request_context.ts";
import { WorkDialogs } from "./dialogs.tsx";
import {
  Carried,
  Expiry,
  leaseUntil,
  Load,
  MOST_RUNS,
  nodeLink,
  OtherFiles,
  Role,
  Skew,
  WorkerState,
} from "./figures.tsx";
import { saidText, t } from "../../../locale/locale.ts";

type Worker = WorkerListing & { ended_at: Date | null };

export async function showWorker(on: RequestContext): Promise<Page> {
  const worker = await readWorker(on.sql, on.params.worker_id ?? "");
  if (!worker) throw new PageError(404);
  const { worker_id } = worker;
  const [runs, settings] = await Promise.all([
    listCarried(on.sql, [worker_id], MOST_RUNS),
    readSettings(on.sql),
  ]);
  return {
    title: `${worker_id} · ${t(on, "nodes.worker")}`,
    body: (
      <>
        <Live on={on} id="worker" topics={["nodes", "runs"]}>
          <Heading on={on} worker={worker} />
          {worker.detached_by && (
            <Problem
              title={t(on, "nodes.detached_by", {
                who: worker.detached_by,
                why: saidText(on, worker.detach_reason ?? ""),
              })}
            />
          )}
          {worker.state !== "DEAD" && <OtherFiles on={on} worker={worker} />}
          <Details on={on} worker={worker} settings={settings} />
          <Carried on={on} runs={runs} />
        </Live>
        {may(on, "operator") && (
          <WorkDialogs on={on} path={`/workers/${encodeURIComponent(worker_id)}`} name={worker_id} runs={runs} />
        )}
      </>
    ),
  };
}

function Heading({ on, worker }: { on: RequestContext; worker: Worker }) {
  return (
    <div class="heading">
      <h1>
        {worker.worker_id} <WorkerState worker={worker} /> {worker.state !== "DEAD" && <Role role={worker.role} />}
        <small>
          {t(on, "nodes.node")} <a href={nodeLink(on, worker.node_id)}>{worker.node_id}</a>
        </small>
      </h1>
      {may(on, "operator") && (
        <div class="buttons">
          {worker.state === "ACTIVE" && <DialogButton opens="drain" text={t(on, "nodes.drain")} />}
          {worker.state === "DRAINING" && <DialogButton opens="undrain" text={t(on, "nodes.undrain")} />}
          {(worker.state === "ACTIVE" || worker.state === "DRAINING") && (
            <DialogButton opens="detach" text={t(on, "nodes.detach")} danger />
          )}
        </div>
      )}
    </div>
  );
}

function Details({ on, worker, settings }: { on: RequestContext; worker: Worker; settings: Settings }) {
  return (
    <section>
      <h2>{t(on, "nodes.details")}</h2>
      <KeyValues
        pairs={[
          [t(on, "nodes.load"), <Load load={worker.load} most={worker.slots} label={t(on, "nodes.load")} />],
          [t(on, "nodes.seen"), <Time on={on} at={worker.seen_at} />],
          [t(on, "nodes.lease"), worker.ended_at ? null : <Time on={on} at={leaseUntil(on, worker)} />],
          [t(on, "nodes.started"), <Time on={on} at={worker.started_at} />],
          [t(on, "nodes.ended"), worker.ended_at && <Time on={on} at={worker.ended_at} />],
          [t(on, "nodes.version"), worker.version],
          [t(on, "nodes.address"), addressText(worker.grpc_host, worker.grpc_port)],
          [t(on, "nodes.pid"), worker.pid],
          [t(on, "nodes.fingerprint"), worker.tls_fingerprint && <code>{worker.tls_fingerprint}</code>],
          [t(on, "nodes.expires"), <Expiry on={on} worker={worker} settings={settings} />],
          [t(on, "nodes.skew"), <Skew on={on} worker={worker} settings={settings} />],
        ]}
      />
      <p>
        <a href={link(on, "/audit", { "target-type": "worker", target: worker.worker_id })}>{t(on, "nodes.history")}</a>
      </p>
    </section>
  );
}
