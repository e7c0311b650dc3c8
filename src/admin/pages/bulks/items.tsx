/** The items of a bulk, in the order in which they are fed, all of them or those in one state. */
import { type ItemState, type ItemView, listItems } from "../../../bulks/bulk_items.ts";
import { readBulk } from "../../../bulks/bulk_view.ts";
import { STATES } from "../../../runs/run_states.ts";
import { State } from "../../parts/badge.tsx";
import { Choice, Filters } from "../../parts/filters.tsx";
import { Live } from "../../parts/live.tsx";
import { Empty } from "../../parts/notes.tsx";
import { edgeOf, PAGE_SIZE } from "../../parts/pager.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Duration, Nothing } from "../../parts/time.tsx";
import { idParam, link, type Page, PageError, type RequestContext } from "../../request_context.ts";
import { firstLine } from "../../../platform/text.ts";
import { saidText, t } from "../../../locale/locale.ts";

const SHOWN: readonly ItemState[] = [...STATES, "UNFED"];

export async function showItems(on: RequestContext): Promise<Page> {
  const id = idParam(on);
  const state = SHOWN.find((one) => one === on.query.get("state"));
  const edge = edgeOf(on);
  const [bulk, found] = await Promise.all([
    readBulk(on.sql, id),
    listItems(on.sql, id, {
      state,
      ...edge,
      most: PAGE_SIZE + 1,
    }),
  ]);
  if (!bulk) throw new PageError(404);
  const backwards = edge.before !== undefined;
  const items = backwards ? found.slice(-PAGE_SIZE) : found.slice(0, PAGE_SIZE);
  const more = found.length > PAGE_SIZE;
  return {
    title: t(on, "bulks.items_of", { id }),
    body: (
      <>
        <div class="heading">
          <h1>
            {t(on, "bulks.items")}{" "}
            <small>
              <a href={link(on, `/bulks/${id}`)}>{t(on, "bulks.bulk", { id })}</a> {t(on, "bulks.of_job")}{" "}
              {bulk.job_name}
            </small>
          </h1>
        </div>
        <Filters on={on} any_set={state !== undefined}>
          <div class="fields">
            <Choice
              on={on}
              label={t(on, "bulks.state")}
              name="state"
              value={state}
              options={SHOWN.map((value) => ({ value, text: value }))}
            />
          </div>
        </Filters>
        <Live on={on} id="items" topics={["bulks", "runs"]}>
          {items.length > 0
            ? <Table columns={columnsOf(on)} rows={items} label={t(on, "bulks.items")} />
            : <Empty text={t(on, "bulks.no_items")} />}
          <Steps
            on={on}
            items={items}
            earlier={backwards ? more : edge.after !== undefined}
            later={backwards || more}
          />
        </Live>
      </>
    ),
  };
}

function columnsOf(on: RequestContext): TableColumn<ItemView>[] {
  return [
    { head: t(on, "bulks.item"), kind: "number", cell: (item) => item.seq ?? <Nothing /> },
    { head: t(on, "bulks.state"), cell: (item) => <State state={item.state} /> },
    {
      head: t(on, "bulks.run"),
      kind: "number",
      cell: ({ job_run_id }) => job_run_id ? <a href={link(on, `/runs/${job_run_id}`)}>{job_run_id}</a> : <Nothing />,
    },
    { head: t(on, "bulks.args"), kind: "main", cell: (item) => <code class="line">{JSON.stringify(item.args)}</code> },
    {
      head: t(on, "bulks.error"),
      kind: "main",
      cell: (item) => <span class="line">{firstLine(saidText(on, item.error_summary ?? item.error_name ?? ""))}</span>,
    },
    {
      head: t(on, "bulks.duration"),
      kind: "number",
      cell: (item) => <Duration on={on} from={item.started_at} to={item.finished_at} />,
    },
    {
      head: t(on, "bulks.repeated_in"),
      kind: "wide",
      cell: ({ retried_by }) => retried_by ? <a href={link(on, `/bulks/${retried_by}`)}>{retried_by}</a> : <Nothing />,
    },
  ];
}

/** From the first on: other lists begin with the newest. */
function Steps(
  { on, items, earlier, later }: { on: RequestContext; items: ItemView[]; earlier: boolean; later: boolean },
) {
  const state = on.query.get("state") ?? undefined;
  const [first, last] = [items.at(0)?.id, items.at(-1)?.id];
  const step = (text: string, there: boolean, query: Record<string, number | undefined>) =>
    there
      ? <a class="button" href={link(on, on.path, { state, ...query })}>{text}</a>
      : <span class="button off" aria-disabled="true">{text}</span>;
  return (
    <nav class="pager" aria-label={t(on, "bulks.pages")}>
      {step(t(on, "bulks.first"), earlier, {})}
      {step(t(on, "bulks.previous"), earlier && first !== undefined, { before: first })}
      {step(t(on, "bulks.next"), later && last !== undefined, { after: last })}
    </nav>
  );
}
