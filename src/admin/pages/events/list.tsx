/** Events, the newest first, with what came of each. */
import { readDefinitions } from "../../../definitions/definition_rows.ts";
import { type EventView, listEvents } from "../../../events/events.ts";
import { Badge, State } from "../../parts/badge.tsx";
import { Choice, Filters, TextField } from "../../parts/filters.tsx";
import { Live } from "../../parts/live.tsx";
import { Code, Empty } from "../../parts/notes.tsx";
import { edgeOf, PAGE_SIZE, pageOf, Pager } from "../../parts/pager.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { link, may, type Page, type RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

export async function showEvents(on: RequestContext): Promise<Page> {
  const event_type = on.query.get("type") || undefined;
  const unprocessed = on.query.get("which") === "unprocessed";
  const edge = edgeOf(on);
  const [found, definitions] = await Promise.all([
    listEvents(on.sql, { event_type, unprocessed, ...edge, most: PAGE_SIZE + 1 }),
    readDefinitions(on.sql),
  ]);
  const page = pageOf(found, edge);
  const types = [...new Set(definitions.filter((one) => !one.removed_at).flatMap((one) => one.event_types))].sort();
  return {
    title: t(on, "events.events"),
    body: (
      <>
        <div class="heading">
          <h1>{t(on, "events.events")}</h1>
          {may(on, "operator") && <a class="button" href={link(on, "/events/new")}>{t(on, "events.emit")}</a>}
        </div>
        <Filters on={on} any_set={event_type !== undefined || unprocessed}>
          <div class="fields">
            <TextField label={t(on, "events.type")} name="type" value={event_type} list={types} />
            <Choice
              on={on}
              label={t(on, "events.which")}
              name="which"
              value={unprocessed ? "unprocessed" : ""}
              options={[{ value: "unprocessed", text: t(on, "events.unprocessed_only") }]}
            />
          </div>
        </Filters>
        <Live on={on} id="events" topics={["events", "runs"]}>
          {page.rows.length > 0
            ? <Table columns={columnsOf(on)} rows={page.rows} label={t(on, "events.events")} />
            : <NoEvents on={on} filtered={event_type !== undefined || unprocessed} />}
          <Pager on={on} page={page} />
        </Live>
      </>
    ),
  };
}

function columnsOf(on: RequestContext): TableColumn<EventView>[] {
  return [
    {
      head: t(on, "events.id"),
      kind: "number",
      cell: (event) => <a href={link(on, `/events/${event.id}`)}>{event.id}</a>,
    },
    {
      head: t(on, "events.type"),
      cell: (event) => <a href={link(on, "/events", { type: event.event_type })}>{event.event_type}</a>,
    },
    { head: t(on, "events.outcome"), cell: (event) => <Outcomes on={on} event={event} /> },
    {
      head: t(on, "events.payload"),
      kind: "main",
      cell: (event) => <code class="line">{JSON.stringify(event.payload)}</code>,
    },
    { head: t(on, "events.dedupe_key"), kind: "wide", cell: (event) => event.dedupe_key ?? <Nothing /> },
    { head: t(on, "events.at"), kind: "wide", cell: (event) => <Time on={on} at={event.created_at} /> },
  ];
}

const SHOWN = 3;

function Outcomes({ on, event }: { on: RequestContext; event: EventView }) {
  if (!event.processed_at) return <Badge tone="warn" sign="◌" text={t(on, "events.unprocessed")} />;
  if (event.outcomes.length === 0) return <span class="nothing">{t(on, "events.nothing")}</span>;
  const shown = event.outcomes.slice(0, SHOWN);
  return (
    <span class="outcomes">
      {shown.map(({ job_name, outcome, job_run_id, state }) => (
        <span>
          {job_run_id ? <a href={link(on, `/runs/${job_run_id}`)}>{job_name}</a> : job_name}{" "}
          {outcome === "run" ? state && <State state={state} /> : <Badge tone="quiet" sign="~" text={outcome} />}
        </span>
      ))}
      {event.outcomes.length > SHOWN && <small>+{event.outcomes.length - SHOWN}</small>}
    </span>
  );
}

function NoEvents({ on, filtered }: { on: RequestContext; filtered: boolean }) {
  if (filtered) return <Empty text={t(on, "events.none_match")} />;
  return (
    <Empty text={t(on, "events.none")}>
      <p>{t(on, "events.none_hint")}</p>
      <Code
        value={`deno task emit order.placed --payload '{"order": 812}'\nselect emit_event('order.placed', '{"order": 812}')`}
      />
    </Empty>
  );
}
