/** All nodes, the workers on them, who leads, and what of the resources is taken. */
import { listNodes, type NodeListing } from "../../../nodes/node_health.ts";
import { readTerm, type TermView } from "../../../nodes/leadership.ts";
import { listWorkers } from "../../../nodes/workers.ts";
import { readResources } from "../../../dispatch/dispatch_queues.ts";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { Code, Empty, Problem } from "../../parts/notes.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { may, type Page, type RequestContext } from "../../request_context.ts";
import { Labels, Load, nodeLink, NodeStatus, whyNot, workerColumns, workerLink } from "./figures.tsx";
import { t } from "../../../locale/locale.ts";

export async function showNodes(on: RequestContext): Promise<Page> {
  const [nodes, workers, term, resources] = await Promise.all([
    listNodes(on.sql),
    listWorkers(on.sql),
    readTerm(on.sql),
    readResources(on.sql),
  ]);
  return {
    title: t(on, "nodes.title"),
    body: (
      <>
        <h1>{t(on, "nodes.title")}</h1>
        <Live on={on} id="nodes" topics={["nodes", "runs"]}>
          <Leader on={on} term={term} />
          <h2>{t(on, "nodes.nodes")}</h2>
          {nodes.length > 0
            ? <Table label={t(on, "nodes.nodes")} rows={nodes} columns={columnsOf(on)} />
            : (
              <Empty text={t(on, "nodes.no_nodes")}>
                <StartOne on={on} />
              </Empty>
            )}
          <h2>{t(on, "nodes.workers")}</h2>
          {workers.length > 0
            ? <Table label={t(on, "nodes.workers")} rows={workers} columns={workerColumns(on, true)} />
            : (
              <Empty text={t(on, "nodes.no_workers")}>
                <StartOne on={on} />
              </Empty>
            )}
          {resources.length > 0 && <Resources on={on} resources={resources} />}
        </Live>
        {may(on, "operator") && term.worker_id && (
          <ConfirmDialog
            on={on}
            id="degrade"
            title={t(on, "nodes.degrade_title", { id: term.worker_id })}
            action="/leader/degrade"
            verb={t(on, "nodes.degrade")}
            danger
          >
            <p>{t(on, "nodes.degrade_text", { node: term.node_id ?? "?" })}</p>
            <input type="hidden" name="epoch" value={term.epoch} />
          </ConfirmDialog>
        )}
      </>
    ),
  };
}

function Leader({ on, term }: { on: RequestContext; term: TermView }) {
  if (!term.worker_id) return <Problem title={t(on, "nodes.no_leader")} />;
  return (
    <section class="heading">
      <span>
        <strong>{t(on, "nodes.leader")}</strong> <a href={workerLink(on, term.worker_id)}>{term.worker_id}</a>
        {term.node_id && <a class="beside" href={nodeLink(on, term.node_id)}>{term.node_id}</a>}
        <span class="beside">{t(on, "nodes.epoch")} {term.epoch}</span>
        <span class="beside">
          {t(on, "nodes.since")} <Time on={on} at={term.acquired_at} />
        </span>
        <small class="beside">{t(on, "nodes.failovers", { n: term.failovers })}</small>
      </span>
      {term.degrade_epoch === term.epoch
        ? <small>{t(on, "nodes.steps_down")}</small>
        : may(on, "operator") && <DialogButton opens="degrade" text={t(on, "nodes.degrade")} danger />}
    </section>
  );
}

function StartOne({ on }: { on: RequestContext }) {
  return (
    <>
      <p>{t(on, "nodes.start")}</p>
      <Code value="deno task worker" />
    </>
  );
}

function columnsOf(on: RequestContext): TableColumn<NodeListing>[] {
  return [
    {
      head: t(on, "nodes.node"),
      cell: (node) => <a class="number" href={nodeLink(on, node.node_id)}>{node.node_id}</a>,
    },
    { head: t(on, "nodes.status"), cell: (node) => <NodeStatus on={on} node={node} /> },
    {
      head: t(on, "nodes.load"),
      cell: (node) => <Load load={node.load} most={node.max_concurrent} label={t(on, "nodes.load")} />,
    },
    { head: t(on, "nodes.workers"), kind: "number", cell: (node) => node.workers },
    {
      head: t(on, "nodes.why"),
      kind: "main",
      cell: (node) => <span class="line" title={whyNot(on, node)}>{whyNot(on, node)}</span>,
    },
    { head: t(on, "nodes.labels"), kind: "wide", cell: (node) => <Labels labels={node.labels} /> },
    { head: t(on, "nodes.last_check"), kind: "wide", cell: (node) => <Time on={on} at={node.checked_at} /> },
    { head: t(on, "nodes.next_check"), kind: "wide", cell: (node) => <Time on={on} at={node.next_check_at} /> },
  ];
}

function Resources(
  { on, resources }: { on: RequestContext; resources: { name: string; capacity: number; taken: number }[] },
) {
  return (
    <>
      <h2>{t(on, "nodes.resources")}</h2>
      <Table
        label={t(on, "nodes.resources")}
        rows={resources}
        columns={[
          { head: t(on, "nodes.resource"), kind: "main", cell: ({ name }) => name },
          {
            head: t(on, "nodes.taken"),
            cell: ({ taken, capacity }) => <Load load={taken} most={capacity} label={t(on, "nodes.taken")} />,
          },
        ]}
      />
    </>
  );
}
