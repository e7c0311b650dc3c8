/** Runs, the newest first, by a filter that stands in the URL. */
import { readDefinitions } from "../../../definitions/definition_rows.ts";
import { findRuns, type RunView } from "../../../runs/run_view.ts";
import { STATES } from "../../../runs/run_states.ts";
import { State } from "../../parts/badge.tsx";
import { Chips, Choice, Filters, TextField } from "../../parts/filters.tsx";
import { Live } from "../../parts/live.tsx";
import { Code, Empty } from "../../parts/notes.tsx";
import { edgeOf, PAGE_SIZE, pageOf, Pager } from "../../parts/pager.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Duration, Nothing, Time } from "../../parts/time.tsx";
import { waitText } from "../../../locale/wait_text.ts";
import { link, may, type Page, type RequestContext } from "../../request_context.ts";
import { type RunListQuery, type RunSpan, SPANS, wantedRuns } from "./filter.ts";
import { firstLine } from "../../../platform/text.ts";
import { saidText, t } from "../../../locale/locale.ts";

export async function showRuns(on: RequestContext): Promise<Page> {
  const wanted = wantedRuns(on);
  const edge = edgeOf(on);
  const [{ runs, looked_to }, definitions] = await Promise.all([
    findRuns(on.sql, { ...wanted.filter, before_id: edge.before, after_id: edge.after, most: PAGE_SIZE + 1 }),
    readDefinitions(on.sql),
  ]);
  const page = pageOf(runs, edge, looked_to);
  const jobs = definitions.map((one) => one.name).sort();
  return {
    title: t(on, "runs.runs"),
    body: (
      <>
        <h1>{t(on, "runs.runs")}</h1>
        <RunFilters on={on} wanted={wanted} jobs={jobs} />
        <Live on={on} id="runs" topics={["runs", ...page.rows.map(({ id }) => `run:${id}` as const)]}>
          {page.rows.length > 0
            ? <Table columns={columnsOf(on)} rows={page.rows} label={t(on, "runs.runs")} />
            : <NoRuns on={on} filtered={wanted.any} further={page.looked_to !== undefined} example={jobs[0]} />}
          <Pager on={on} page={page} />
        </Live>
        {may(on, "operator") && page.rows.length > 0 && <ManyActions on={on} any={wanted.any} />}
      </>
    ),
  };
}

/** Each leads to a page that says how many and which, and asks. */
function ManyActions({ on, any }: { on: RequestContext; any: boolean }) {
  const conditions = [...on.query].filter(([name]) => name !== "before" && name !== "after");
  const to = (verb: string) => link(on, "/runs/many", new URLSearchParams([["verb", verb], ...conditions]));
  return (
    <div class="buttons many">
      <span>{any ? t(on, "runs.many_fit") : t(on, "runs.many_all_of_them")}</span>
      <a class="button" href={to("cancel")}>{t(on, "runs.many_cancel.open")}</a>
      <a class="button" href={to("retry")}>{t(on, "runs.many_retry.open")}</a>
      <a class="button" href={to("reprioritize")}>{t(on, "runs.many_reprioritize.open")}</a>
    </div>
  );
}

function RunFilters({ on, wanted, jobs }: { on: RequestContext; wanted: RunListQuery; jobs: string[] }) {
  const { filter } = wanted;
  const spans = (Object.keys(SPANS) as RunSpan[]).map((value) => ({ value, text: t(on, `runs.span.${value}`) }));
  const rare = (
    <>
      <TextField label={t(on, "runs.serial_key")} name="serial-key" value={filter.serial_key} />
      <TextField label={t(on, "runs.error_name")} name="error" value={filter.error_name} />
      <TextField label={t(on, "runs.node")} name="ran-on" value={filter.ran_on} />
      <TextField label={t(on, "runs.bulk")} name="bulk" value={filter.bulk_id?.toString()} />
    </>
  );
  return (
    <Filters on={on} any_set={wanted.any} more={rare} more_set={wanted.any_rare}>
      <div class="fields">
        <TextField label={t(on, "runs.job")} name="job" value={filter.job_name} list={jobs} />
        <Choice on={on} label={t(on, "runs.since")} name="within" value={wanted.span} options={spans} />
      </div>
      <Chips label={t(on, "runs.states")} name="state" chosen={wanted.states} options={STATES} />
    </Filters>
  );
}

export function columnsOf(on: RequestContext): TableColumn<RunView>[] {
  return [
    { head: t(on, "runs.id"), kind: "number", cell: (run) => <a href={link(on, `/runs/${run.id}`)}>{run.id}</a> },
    { head: t(on, "runs.job"), cell: (run) => <a href={link(on, "/runs", { job: run.job_name })}>{run.job_name}</a> },
    { head: t(on, "runs.state"), cell: (run) => <State state={run.state} /> },
    { head: t(on, "runs.note"), kind: "main", cell: (run) => <span class="line">{noteOf(on, run)}</span> },
    { head: t(on, "runs.attempt"), kind: "number", cell: (run) => run.attempt },
    {
      head: t(on, "runs.took"),
      kind: "number",
      cell: (run) => <Duration on={on} from={run.started_at} to={run.finished_at} />,
    },
    { head: t(on, "runs.due"), kind: "wide", cell: (run) => <Time on={on} at={run.due_at} /> },
    { head: t(on, "runs.worker"), kind: "wide", cell: (run) => run.assigned_worker_id ?? <Nothing /> },
  ];
}

/** In one line: why it waits, how far it is, or why it failed. */
function noteOf(on: RequestContext, run: RunView): string {
  if (run.cancel_requested_by && !run.finished_at) return t(on, "runs.asked", { who: run.cancel_requested_by });
  if (run.waits) return waitText(on, run.waits);
  if (run.error_summary) return firstLine(saidText(on, run.error_summary));
  if (run.state === "RUNNING" && run.progress !== null) {
    return `${Math.round(run.progress * 100)} % ${run.progress_message ?? ""}`;
  }
  return "";
}

function NoRuns(
  { on, filtered, further, example }: {
    on: RequestContext;
    filtered: boolean;
    further: boolean;
    example: string | undefined;
  },
) {
  if (further) return <Empty text={t(on, "runs.none_so_far")} />;
  if (filtered) return <Empty text={t(on, "runs.none_match")} />;
  return (
    <Empty text={t(on, "runs.none")}>
      <p>{t(on, "runs.none_hint")}</p>
      <Code value={`deno task ${example ? `run ${example}` : "new my_job"}`} />
    </Empty>
  );
}
