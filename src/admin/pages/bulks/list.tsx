/** Bulks, the newest first. */
import { type BulkView, listBulks } from "../../../bulks/bulk_view.ts";
import { State } from "../../parts/badge.tsx";
import { Choice, Filters } from "../../parts/filters.tsx";
import { Live } from "../../parts/live.tsx";
import { Code, Empty } from "../../parts/notes.tsx";
import { edgeOf, PAGE_SIZE, pageOf, Pager } from "../../parts/pager.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { waitText } from "../../../locale/wait_text.ts";
import { link, may, type Page, type RequestContext } from "../../request_context.ts";
import { bandText, countText, endedOf, rateText } from "./figures.tsx";
import { t } from "../../../locale/locale.ts";

export async function showBulks(on: RequestContext): Promise<Page> {
  const open = on.query.get("open") === "yes";
  const edge = edgeOf(on);
  const found = await listBulks(on.sql, { open, before_id: edge.before, after_id: edge.after, most: PAGE_SIZE + 1 });
  const page = pageOf(found, edge);
  return {
    title: t(on, "bulks.bulks"),
    body: (
      <>
        <div class="heading">
          <h1>{t(on, "bulks.bulks")}</h1>
          {may(on, "operator") && <a class="button" href={link(on, "/bulks/new")}>{t(on, "bulks.start")}</a>}
        </div>
        <Filters on={on} any_set={open}>
          <div class="fields">
            <Choice
              on={on}
              label={t(on, "bulks.open")}
              name="open"
              value={open ? "yes" : ""}
              options={[{ value: "yes", text: t(on, "bulks.open_only") }]}
            />
          </div>
        </Filters>
        <Live on={on} id="bulks" topics={["bulks", "runs"]}>
          {page.rows.length > 0
            ? <Table columns={columnsOf(on)} rows={page.rows} label={t(on, "bulks.bulks")} />
            : <NoBulks on={on} filtered={open || edge.before !== undefined} />}
          <Pager on={on} page={page} />
        </Live>
      </>
    ),
  };
}

function columnsOf(on: RequestContext): TableColumn<BulkView>[] {
  return [
    { head: t(on, "bulks.id"), kind: "number", cell: (bulk) => <a href={link(on, `/bulks/${bulk.id}`)}>{bulk.id}</a> },
    { head: t(on, "bulks.job"), cell: (bulk) => bulk.job_name },
    { head: t(on, "bulks.name"), kind: "wide", cell: (bulk) => bulk.name || <Nothing /> },
    { head: t(on, "bulks.state"), cell: (bulk) => <State state={bulk.state} /> },
    { head: t(on, "bulks.progress"), cell: (bulk) => <Progress on={on} bulk={bulk} /> },
    {
      head: t(on, "bulks.failed"),
      kind: "number",
      cell: (bulk) => bulk.failed > 0 ? countText(bulk.failed) : <Nothing />,
    },
    {
      head: t(on, "bulks.at_once"),
      kind: "number",
      cell: (bulk) => bulk.finished_at ? <Nothing /> : `${bulk.running} / ${bulk.running_limit}`,
    },
    {
      head: t(on, "bulks.per_minute"),
      kind: "number",
      cell: (bulk) => bulk.per_minute === null ? <Nothing /> : rateText(bulk.per_minute),
    },
    {
      head: t(on, "bulks.done"),
      kind: "text",
      cell: (bulk) => bulk.finished_at ? <Time on={on} at={bulk.finished_at} ago={false} /> : whenDone(on, bulk),
    },
    { head: t(on, "bulks.created"), kind: "wide", cell: (bulk) => <Time on={on} at={bulk.created_at} /> },
  ];
}

/** Of one that does not go on: why. */
function whenDone(on: RequestContext, bulk: BulkView): string {
  return bulk.done_to === null && bulk.waits ? waitText(on, bulk.waits) : bandText(on, bulk);
}

function Progress({ on, bulk }: { on: RequestContext; bulk: BulkView }) {
  return (
    <span class="progress">
      <progress value={bulk.progress} max={1} aria-label={t(on, "bulks.progress")}></progress>
      <small>{`${countText(endedOf(bulk))} / ${countText(bulk.items)}`}</small>
    </span>
  );
}

function NoBulks({ on, filtered }: { on: RequestContext; filtered: boolean }) {
  if (filtered) return <Empty text={t(on, "bulks.none_match")} />;
  return (
    <Empty text={t(on, "bulks.none")}>
      <p>{t(on, "bulks.none_hint")}</p>
      <Code value={`deno task bulk start JOB --items items.jsonl --parallel 10`} />
    </Empty>
  );
}
