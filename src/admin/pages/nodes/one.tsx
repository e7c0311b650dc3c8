/** One node: whether it can work, what its last check found, who works there, and what can be done to it. */
import { type CheckResult, listNodes, type NodeListing } from "../../../nodes/node_health.ts";
import { listWorkers, type WorkerListing } from "../../../nodes/workers.ts";
import { listCarried, type RunView } from "../../../runs/run_view.ts";
import { Badge } from "../../parts/badge.tsx";
import { ConfirmDialog, Csrf, DialogButton } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { Empty, KeyValues, Problem } from "../../parts/notes.tsx";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { link, may, type Page, PageError, type RequestContext } from "../../request_context.ts";
import { WorkDialogs } from "./dialogs.tsx";
import { Carried, Labels, Load, MOST_RUNS, NodeStatus, whyNot, workerColumns, workerLink } from "./figures.tsx";
import { labelsText } from "./given.ts";
import { partNameText, partText } from "../../parts/part_text.ts";
import { t } from "../../../locale/locale.ts";

export async function showNode(on: RequestContext): Promise<Page> {
  const { node_id } = on.params;
  const [nodes, all] = await Promise.all([listNodes(on.sql), listWorkers(on.sql)]);
  const node = nodes.find((one) => one.node_id === node_id);
  if (!node) throw new PageError(404);
  const workers = all.filter((one) => one.node_id === node_id);
  const runs = await listCarried(on.sql, workers.map(({ worker_id }) => worker_id), MOST_RUNS);
  return {
    title: `${node.node_id} · ${t(on, "nodes.node")}`,
    body: (
      <>
        <Live on={on} id="node" topics={["nodes", "runs"]}>
          <Heading on={on} node={node} workers={workers} />
          {whyNot(on, node) && <Problem title={whyNot(on, node)} />}
          <div class="columns">
            <Check on={on} node={node} />
            <Details on={on} node={node} />
          </div>
          <h2>{t(on, "nodes.workers")}</h2>
          {workers.length > 0
            ? <Table label={t(on, "nodes.workers")} rows={workers} columns={workerColumns(on, false)} />
            : <Empty text={t(on, "nodes.no_workers")} />}
          <Carried on={on} runs={runs} />
        </Live>
        {may(on, "operator") && <Dialogs on={on} node={node} runs={runs} />}
      </>
    ),
  };
}

function Heading({ on, node, workers }: { on: RequestContext; node: NodeListing; workers: WorkerListing[] }) {
  const has = (state: WorkerListing["state"]) => workers.some((one) => one.state === state);
  return (
    <div class="heading">
      <h1>
        {node.node_id} <NodeStatus on={on} node={node} />
      </h1>
      {may(on, "operator") && (
        <div class="buttons">
          <form method="post" action={link(on, `/nodes/${encodeURIComponent(node.node_id)}/test`)}>
            <Csrf on={on} />
            <button type="submit" class="primary" disabled={node.checking}>{t(on, "nodes.test")}</button>
          </form>
          <DialogButton opens="change" text={t(on, "nodes.change")} />
          <DialogButton
            opens={node.is_active ? "maintenance" : "back"}
            text={node.is_active ? t(on, "nodes.on") : t(on, "nodes.off")}
          />
          {has("ACTIVE") && <DialogButton opens="drain" text={t(on, "nodes.drain")} />}
          {has("DRAINING") && <DialogButton opens="undrain" text={t(on, "nodes.undrain")} />}
          {(has("ACTIVE") || has("DRAINING")) && <DialogButton opens="detach" text={t(on, "nodes.detach")} danger />}
          {workers.length === 0 && <DialogButton opens="remove" text={t(on, "nodes.remove")} danger />}
        </div>
      )}
    </div>
  );
}

function Check({ on, node }: { on: RequestContext; node: NodeListing }) {
  const result = node.check_result;
  return (
    <section aria-busy={node.checking ? "true" : "false"}>
      <h2>
        {t(on, "nodes.parts")}
        {result?.worker_id && (
          <small>
            {t(on, "nodes.checked_by")} <a href={workerLink(on, result.worker_id)}>{result.worker_id}</a>
          </small>
        )}
      </h2>
      {node.checking && <p class="now">{t(on, "nodes.under_way")}</p>}
      {result
        ? <Parts on={on} result={result} checking={node.checking} />
        : <p class="nothing">{t(on, "nodes.no_check")}</p>}
    </section>
  );
}

function Parts({ on, result, checking }: { on: RequestContext; result: CheckResult; checking: boolean }) {
  return (
    <div class={checking ? "old" : undefined}>
      <Table
        label={t(on, "nodes.parts")}
        rows={result.parts}
        columns={[
          { head: t(on, "nodes.part"), cell: (part) => partNameText(on, part.name) },
          {
            head: t(on, "nodes.found"),
            cell: ({ ok }) => (
              <Badge
                tone={ok ? "good" : "bad"}
                sign={ok ? "✓" : "✕"}
                text={ok ? t(on, "nodes.ok") : t(on, "nodes.failed")}
              />
            ),
          },
          {
            head: t(on, "nodes.says"),
            kind: "main",
            cell: (part) => <pre>{partText(on, part)}</pre>,
          },
          { head: t(on, "nodes.check_took"), kind: "number", cell: ({ ms }) => ms === 0 ? "" : `${ms} ms` },
        ]}
      />
    </div>
  );
}

function Details({ on, node }: { on: RequestContext; node: NodeListing }) {
  return (
    <section>
      <h2>{t(on, "nodes.details")}</h2>
      <KeyValues
        pairs={[
          [t(on, "nodes.load"), <Load load={node.load} most={node.max_concurrent} label={t(on, "nodes.load")} />],
          [t(on, "nodes.workers"), node.workers],
          [t(on, "nodes.labels"), <Labels labels={node.labels} />],
          [t(on, "nodes.last_check"), <Time on={on} at={node.checked_at} />],
          [t(on, "nodes.next_check"), <Time on={on} at={node.next_check_at} />],
          [t(on, "nodes.failed_checks"), node.failed_checks],
        ]}
      />
      <p>
        <a href={link(on, "/audit", { "target-type": "node", target: node.node_id })}>{t(on, "nodes.history")}</a>
      </p>
    </section>
  );
}

function Dialogs({ on, node, runs }: { on: RequestContext; node: NodeListing; runs: RunView[] }) {
  const path = `/nodes/${encodeURIComponent(node.node_id)}`;
  return (
    <>
      <ConfirmDialog
        on={on}
        id="change"
        title={t(on, "nodes.change_title", { id: node.node_id })}
        action={path}
        verb={t(on, "nodes.change")}
      >
        <label>
          {t(on, "nodes.max_concurrent")}
          <input
            type="number"
            name="max_concurrent"
            min={0}
            max={100000}
            value={node.max_concurrent?.toString() ?? ""}
          />
        </label>
        <label>
          {t(on, "nodes.labels_field")}
          <input name="labels" value={labelsText(node.labels)} autocomplete="off" spellcheck={false} maxlength={2000} />
        </label>
        <input type="hidden" name="was_max_concurrent" value={node.max_concurrent?.toString() ?? ""} />
        <input type="hidden" name="was_labels" value={labelsText(node.labels)} />
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="maintenance"
        title={t(on, "nodes.on_title", { id: node.node_id })}
        action={`${path}/maintenance`}
        verb={t(on, "nodes.on")}
        danger
      >
        <p>{t(on, "nodes.on_text")}</p>
        <input type="hidden" name="maintenance" value="on" />
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="back"
        title={t(on, "nodes.off_title", { id: node.node_id })}
        action={`${path}/maintenance`}
        verb={t(on, "nodes.off")}
      >
        <p>{t(on, "nodes.off_text")}</p>
        <input type="hidden" name="maintenance" value="off" />
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="remove"
        title={t(on, "nodes.remove_title", { id: node.node_id })}
        action={`${path}/remove`}
        verb={t(on, "nodes.remove")}
        danger
      >
        <p>{t(on, "nodes.remove_text")}</p>
      </ConfirmDialog>
      <WorkDialogs on={on} path={path} name={node.node_id} runs={runs} />
    </>
  );
}
