/** One event: what it said, and what came of it with each job that waits for its type. */
import { type EventRule, readDefinitions, type StoredDefinition } from "../../../definitions/definition_rows.ts";
import { type EventOutcome, type EventView, listEvents } from "../../../events/events.ts";
import { Badge, State } from "../../parts/badge.tsx";
import { Live } from "../../parts/live.tsx";
import { Code, Empty, KeyValues } from "../../parts/notes.tsx";
import { Table } from "../../parts/table.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { idParam, link, may, type Page, PageError, type RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

export async function showEvent(on: RequestContext): Promise<Page> {
  const id = idParam(on);
  const [[event], definitions] = await Promise.all([listEvents(on.sql, { id, most: 1 }), readDefinitions(on.sql)]);
  if (!event) throw new PageError(404);
  return {
    title: `${t(on, "events.event", { id })} · ${event.event_type}`,
    body: (
      <Live on={on} id="event" topics={["events", "runs"]}>
        <div class="heading">
          <h1>
            {t(on, "events.event", { id })} <small>{event.event_type}</small>
          </h1>
          {may(on, "operator") && (
            <div class="buttons">
              <a class="button" href={link(on, "/events/new", { of: id })}>{t(on, "events.emit_again")}</a>
            </div>
          )}
        </div>
        {!event.processed_at && <p class="now">{t(on, "events.unprocessed_hint")}</p>}
        {event.processed_at && <Outcomes on={on} event={event} definitions={definitions} />}
        <div class="columns">
          <section>
            <h2>{t(on, "events.payload")}</h2>
            <Code value={event.payload} />
          </section>
          <section>
            <h2>{t(on, "events.details")}</h2>
            <KeyValues
              pairs={[
                [
                  t(on, "events.type"),
                  <a href={link(on, "/events", { type: event.event_type })}>{event.event_type}</a>,
                ],
                [t(on, "events.dedupe_key"), event.dedupe_key],
                [t(on, "events.at"), <Time on={on} at={event.created_at} />],
                [
                  t(on, "events.processed"),
                  event.processed_at ? <Time on={on} at={event.processed_at} /> : t(on, "events.unprocessed"),
                ],
              ]}
            />
          </section>
        </div>
      </Live>
    ),
  };
}

interface Row {
  job_name: string;
  outcome: EventOutcome | undefined;
  rule: EventRule | undefined;
}

/** Also jobs that wait for its type and got nothing of it. */
function Outcomes(
  { on, event, definitions }: { on: RequestContext; event: EventView; definitions: StoredDefinition[] },
) {
  const waiting = definitions.filter((one) => !one.removed_at && one.event_types.includes(event.event_type));
  const names = [
    ...new Set([...event.outcomes, ...waiting.map(({ name }) => ({ job_name: name }))].map((one) => one.job_name)),
  ];
  const rows = names.sort().map((job_name): Row => ({
    job_name,
    outcome: event.outcomes.find((one) => one.job_name === job_name),
    rule: waiting.find(({ name }) => name === job_name)?.event_rules[event.event_type],
  }));
  if (rows.length === 0) return <Empty text={t(on, "events.nobody")} />;
  return (
    <section>
      <h2>{t(on, "events.outcome")}</h2>
      <Table
        label={t(on, "events.outcome")}
        rows={rows}
        columns={[
          { head: t(on, "events.job"), cell: (row) => row.job_name },
          {
            head: t(on, "events.run"),
            kind: "number",
            cell: ({ outcome }) =>
              outcome?.job_run_id
                ? <a href={link(on, `/runs/${outcome.job_run_id}`)}>{outcome.job_run_id}</a>
                : <Nothing />,
          },
          { head: t(on, "events.outcome"), cell: ({ outcome }) => <Outcome on={on} outcome={outcome} /> },
          {
            head: t(on, "events.rule"),
            kind: "main",
            cell: ({ rule }) => rule ? <code class="line">{JSON.stringify(rule)}</code> : <Nothing />,
          },
        ]}
      />
    </section>
  );
}

function Outcome({ on, outcome }: { on: RequestContext; outcome: EventOutcome | undefined }) {
  if (!outcome) return <span class="nothing">{t(on, "events.filtered")}</span>;
  if (outcome.outcome === "run") {
    return outcome.state ? <State state={outcome.state} /> : <>{t(on, "events.own_run")}</>;
  }
  return (
    <>
      <Badge tone="quiet" sign="~" text={outcome.outcome} />{" "}
      <span class="nothing">
        {outcome.outcome === "debounced" ? t(on, "events.debounced") : t(on, "events.throttled")}
      </span>
    </>
  );
}
