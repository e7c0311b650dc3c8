/** Who did what to what, and why, the newest first, by a filter that stands in the URL. */
import { type AuditEntry, listAudit, listAuditActions, listAuditActors } from "../../../access/audit.ts";
import { Filters, TextField, TimeField } from "../../parts/filters.tsx";
import { Live } from "../../parts/live.tsx";
import { Empty } from "../../parts/notes.tsx";
import { edgeOf, PAGE_SIZE, pageOf, Pager } from "../../parts/pager.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { TargetLink } from "../../parts/target.tsx";
import { Time } from "../../parts/time.tsx";
import { link, type Page, type RequestContext } from "../../request_context.ts";
import { differencesOf } from "./differences.ts";
import { type WantedActions, wantedActions } from "./filter.ts";
import { MOST_KEPT } from "./keep.ts";
import { saidText, t } from "../../../locale/locale.ts";

export async function showAudit(on: RequestContext): Promise<Page> {
  const wanted = wantedActions(on);
  const edge = edgeOf(on);
  const [found, actions, actors] = await Promise.all([
    listAudit(on.sql, { ...wanted.filter, before_id: edge.before, after_id: edge.after, most: PAGE_SIZE + 1 }),
    listAuditActions(on.sql),
    listAuditActors(on.sql),
  ]);
  const page = pageOf(found, edge);
  const filtered = new URLSearchParams([...on.query].filter(([name]) => name !== "before" && name !== "after"));
  return {
    title: t(on, "audit.title"),
    body: (
      <>
        <div class="heading">
          <h1>
            {t(on, "audit.title")} <small>{t(on, "audit.kept")}</small>
          </h1>
          <span class="buttons">
            <small>{t(on, "audit.keep", { most: MOST_KEPT })}</small>
            <a class="button" href={link(on, "/audit.csv", filtered)} download>CSV</a>
            <a class="button" href={link(on, "/audit.json", filtered)} download>JSON</a>
          </span>
        </div>
        <ActFilters on={on} wanted={wanted} actions={actions} actors={actors} />
        <Live on={on} id="audit" topics={["audit"]}>
          {page.rows.length > 0
            ? <Table columns={columnsOf(on)} rows={page.rows} label={t(on, "audit.title")} />
            : <Empty text={wanted.any ? t(on, "audit.none_match") : t(on, "audit.none")} />}
          <Pager on={on} page={page} />
        </Live>
      </>
    ),
  };
}

function ActFilters(
  { on, wanted, actions, actors }: { on: RequestContext; wanted: WantedActions; actions: string[]; actors: string[] },
) {
  const { filter } = wanted;
  const rare = (
    <>
      <TextField label={t(on, "audit.target_type")} name="target-type" value={filter.target_type} />
      <TextField label={t(on, "audit.target_id")} name="target" value={filter.target_id} />
      <TimeField on={on} label={t(on, "audit.until")} name="until" value={filter.until} />
    </>
  );
  const parts = [...new Set(actions.flatMap((action) => [action.split(".")[0] ?? action, action]))];
  return (
    <Filters on={on} any_set={wanted.any} more={rare} more_set={wanted.any_rare}>
      <div class="fields">
        <TextField label={t(on, "audit.actor")} name="actor" value={filter.actor} list={actors} />
        <TextField label={t(on, "audit.action")} name="action" value={filter.action} list={parts} />
        <TimeField on={on} label={t(on, "audit.since")} name="since" value={filter.since} />
      </div>
    </Filters>
  );
}

function columnsOf(on: RequestContext): TableColumn<AuditEntry>[] {
  return [
    { head: t(on, "audit.at"), cell: (act) => <Time on={on} at={act.at} ago={false} /> },
    { head: t(on, "audit.actor"), cell: (act) => <a href={link(on, "/audit", { actor: act.actor })}>{act.actor}</a> },
    {
      head: t(on, "audit.action"),
      cell: (act) => <a href={link(on, "/audit", { action: act.action })}>{act.action}</a>,
    },
    { head: t(on, "audit.target"), cell: (act) => <Target on={on} act={act} /> },
    { head: t(on, "audit.changes"), kind: "main", cell: (act) => <Differences on={on} act={act} /> },
    {
      head: t(on, "audit.reason"),
      kind: "text",
      cell: (act) => <span class="said">{saidText(on, act.reason ?? "")}</span>,
    },
  ];
}

/** Where it is, and beside it all that was done to it. */
function Target({ on, act }: { on: RequestContext; act: AuditEntry }) {
  const all = link(on, "/audit", { "target-type": act.target_type, target: act.target_id });
  return (
    <span class="target">
      <a class="nothing" href={all}>{act.target_type}</a>{" "}
      <TargetLink on={on} type={act.target_type} id={act.target_id} />
    </span>
  );
}

const SHOWN = 6;

function Differences({ on, act }: { on: RequestContext; act: AuditEntry }) {
  const lines = differencesOf(act.before, act.after);
  const item = ({ name, before, after }: typeof lines[number]) => (
    <li>
      {name && <b>{name}</b>} {before !== undefined && <del>{before}</del>}
      {before !== undefined && after !== undefined && " → "}
      {after !== undefined && <ins>{after}</ins>}
    </li>
  );
  return (
    <>
      <ul class="differences">{lines.slice(0, SHOWN).map(item)}</ul>
      {lines.length > SHOWN && (
        <details>
          <summary>{t(on, "audit.more")} ({lines.length})</summary>
          <ul class="differences">{lines.slice(SHOWN).map(item)}</ul>
        </details>
      )}
    </>
  );
}
