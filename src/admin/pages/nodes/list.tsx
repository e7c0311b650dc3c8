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
import { NODES } from "./words.ts";

export async function showNodes(on: RequestContext): Promise<Page> {
  const say = NODES[on.lang];
  const [nodes, workers, term, resources] = await Promise.all([
    listNodes(on.sql),
    listWorkers(on.sql),
    readTerm(on.sql),
    readResources(on.sql),
  ]);
  return {
    title: say.title,
    body: (
      <>
        <h1>{say.title}</h1>
        <Live on={on} id="nodes" topics={["nodes", "runs"]}>
          <Leader on={on} term={term} />
          <h2>{say.nodes}</h2>
          {nodes.length > 0
            ? <Table label={say.nodes} rows={nodes} columns={columnsOf(on)} />
            : (
              <Empty text={say.no_nodes}>
                <StartOne on={on} />
              </Empty>
            )}
          <h2>{say.workers}</h2>
          {workers.length > 0
            ? <Table label={say.workers} rows={workers} columns={workerColumns(on, true)} />
            : (
              <Empty text={say.no_workers}>
                <StartOne on={on} />
              </Empty>
            )}
          {resources.length > 0 && <Resources on={on} resources={resources} />}
        </Live>
        {may(on, "operator") && term.worker_id && (
          <ConfirmDialog
            on={on}
            id="degrade"
            title={say.degrade_title(term.worker_id)}
            action="/leader/degrade"
            verb={say.degrade}
            danger
          >
            <p>{say.degrade_text(term.node_id ?? "?")}</p>
            <input type="hidden" name="epoch" value={term.epoch} />
          </ConfirmDialog>
        )}
      </>
    ),
  };
}

function Leader({ on, term }: { on: RequestContext; term: TermView }) {
  const say = NODES[on.lang];
  if (!term.worker_id) return <Problem title={say.no_leader} />;
  return (
    <section class="heading">
      <span>
        <strong>{say.leader}</strong> <a href={workerLink(on, term.worker_id)}>{term.worker_id}</a>
        {term.node_id && <a class="beside" href={nodeLink(on, term.node_id)}>{term.node_id}</a>}
        <span class="beside">{say.epoch} {term.epoch}</span>
        <span class="beside">
          {say.since} <Time on={on} at={term.acquired_at} />
        </span>
        <small class="beside">{say.failovers(term.failovers)}</small>
      </span>
      {term.degrade_epoch === term.epoch
        ? <small>{say.steps_down}</small>
        : may(on, "operator") && <DialogButton opens="degrade" text={say.degrade} danger />}
    </section>
  );
}

function StartOne({ on }: { on: RequestContext }) {
  return (
    <>
      <p>{NODES[on.lang].start}</p>
      <Code value="deno task worker" />
    </>
  );
}

function columnsOf(on: RequestContext): TableColumn<NodeListing>[] {
  const say = NODES[on.lang];
  return [
    { head: say.node, cell: (node) => <a class="number" href={nodeLink(on, node.node_id)}>{node.node_id}</a> },
    { head: say.status, cell: (node) => <NodeStatus on={on} node={node} /> },
    { head: say.load, cell: (node) => <Load load={node.load} most={node.max_concurrent} label={say.load} /> },
    { head: say.workers, kind: "number", cell: (node) => node.workers },
    {
      head: say.why,
      kind: "main",
      cell: (node) => <span class="line" title={whyNot(on, node)}>{whyNot(on, node)}</span>,
    },
    { head: say.labels, kind: "wide", cell: (node) => <Labels labels={node.labels} /> },
    { head: say.last_check, kind: "wide", cell: (node) => <Time on={on} at={node.checked_at} /> },
    { head: say.next_check, kind: "wide", cell: (node) => <Time on={on} at={node.next_check_at} /> },
  ];
}

function Resources(
  { on, resources }: { on: RequestContext; resources: { name: string; capacity: number; taken: number }[] },
) {
  const say = NODES[on.lang];
  return (
    <>
      <h2>{say.resources}</h2>
      <Table
        label={say.resources}
        rows={resources}
        columns={[
          { head: say.resource, kind: "main", cell: ({ name }) => name },
          {
            head: say.taken,
            cell: ({ taken, capacity }) => <Load load={taken} most={capacity} label={say.taken} />,
          },
        ]}
      />
    </>
  );
}
