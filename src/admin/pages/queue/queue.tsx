/** The queue: what waits and why, what is stopped and by whom, and how much there is of each resource. */
import { ACTIVE, WAITING } from "../../../runs/run_scans.ts";
import { listStoppedKeys, type QueueLine, readQueue, type StoppedKey } from "../../../dispatch/pauses.ts";
import { readResources } from "../../../dispatch/dispatch_queues.ts";
import { DispatchPaused, readDispatch } from "../../parts/dispatch.tsx";
import { engineText } from "../../parts/engine_text.ts";
import { ConfirmDialog, Csrf, DialogButton, ReasonField } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { Empty } from "../../parts/notes.tsx";
import { ACTIONS, Table, type TableColumn } from "../../parts/table.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { whyText } from "../../parts/why.tsx";
import { link, may, type Page, type RequestContext } from "../../request_context.ts";
import { QUEUE } from "./words.ts";

type Stock = Awaited<ReturnType<typeof readResources>>[number];

export async function showQueue(on: RequestContext): Promise<Page> {
  const say = QUEUE[on.lang];
  const [dispatch, lines, keys, stock] = await Promise.all([
    readDispatch(on),
    readQueue(on.sql),
    listStoppedKeys(on.sql),
    readResources(on.sql),
  ]);
  const resources = stock.sort((a, b) => a.name < b.name ? -1 : 1);
  return {
    title: say.queue,
    body: (
      <>
        <Live on={on} id="queue" topics={["runs", "jobs", "settings", "audit"]}>
          <Heading on={on} paused={dispatch.paused} />
          <DispatchPaused on={on} dispatch={dispatch} />
          <section>
            <h2>{say.jobs}</h2>
            {lines.length > 0
              ? <Table columns={jobColumns(on)} rows={lines} label={say.jobs} />
              : <p class="nothing">{say.none}</p>}
          </section>
          <section>
            <h2>{say.keys}</h2>
            {keys.length > 0
              ? <Table columns={keyColumns(on)} rows={keys} label={say.keys} />
              : <p class="nothing">{say.keys_none}</p>}
          </section>
          <section>
            <h2>{say.resources}</h2>
            {resources.length > 0
              ? <Table columns={resourceColumns(on)} rows={resources} label={say.resources} />
              : <Empty text={say.resources_none} />}
          </section>
        </Live>
        {may(on, "operator") && <Forms on={on} resources={resources} />}
      </>
    ),
  };
}

function Heading({ on, paused }: { on: RequestContext; paused: boolean }) {
  const say = QUEUE[on.lang];
  return (
    <div class="heading">
      <h1>
        {say.queue} {!paused && <small>{say.dispatch_running}</small>}
      </h1>
      {may(on, "operator") && (
        <div class="buttons">
          <Ask on={on} verb={paused ? "resume" : "pause"} text={paused ? say.resume_all : say.pause_all} all />
        </div>
      )}
    </div>
  );
}

/** To the page that says what this touches, and asks. */
function Ask(
  { on, verb, text, job, serial_key, all }: {
    on: RequestContext;
    verb: "pause" | "resume";
    text: string;
    job?: string;
    serial_key?: string;
    all?: true;
  },
) {
  const asked = { do: verb, job, key: serial_key, all: all && "yes" };
  return <a class="button" href={link(on, "/queue/pause", asked)}>{text}</a>;
}

function jobColumns(on: RequestContext): TableColumn<QueueLine>[] {
  const say = QUEUE[on.lang];
  const runs = (line: QueueLine, n: number, states: readonly string[]) =>
    n > 0
      ? (
        <a
          href={link(
            on,
            "/runs",
            new URLSearchParams([["job", line.job_name], ...states.map((state) => ["state", state])]),
          )}
        >
          {n}
        </a>
      )
      : <Nothing />;
  const actions: TableColumn<QueueLine> = {
    head: ACTIONS[on.lang].head,
    unseen: true,
    cell: ({ job_name, paused_by }) =>
      paused_by === null
        ? <Ask on={on} verb="pause" text={say.pause} job={job_name} />
        : <Ask on={on} verb="resume" text={say.resume} job={job_name} />,
  };
  return [
    { head: say.job, cell: (line) => <a href={link(on, `/jobs/${line.job_name}`)}>{line.job_name}</a> },
    { head: say.priority, kind: "wide", cell: (line) => line.priority },
    { head: say.waiting, kind: "number", cell: (line) => runs(line, line.waiting, WAITING) },
    { head: say.running, kind: "number", cell: (line) => runs(line, line.running, ACTIVE) },
    { head: say.oldest, kind: "wide", cell: (line) => <Time on={on} at={line.oldest_due_at} /> },
    { head: say.why, kind: "main", cell: (line) => whyIdle(on, line) },
    ...(may(on, "operator") ? [actions] : []),
  ];
}

function whyIdle(on: RequestContext, { paused_by, paused_reason, waits, held, later }: QueueLine): string {
  const say = QUEUE[on.lang];
  if (paused_by !== null) return say.paused_by(paused_by, engineText(on.lang, paused_reason ?? ""));
  const reasons = waits.map((one) => whyText(on, one));
  return [...new Set(reasons), ...held > 0 ? [say.held(held)] : [], ...later > 0 ? [say.later(later)] : []].join("; ");
}

function keyColumns(on: RequestContext): TableColumn<StoppedKey>[] {
  const say = QUEUE[on.lang];
  const act: TableColumn<StoppedKey> = {
    head: ACTIONS[on.lang].head,
    unseen: true,
    cell: ({ serial_key }) => <Ask on={on} verb="resume" text={say.unblock} serial_key={serial_key} />,
  };
  return [
    {
      head: say.key,
      cell: ({ serial_key }) => <a href={link(on, "/runs", { "serial-key": serial_key })}>{serial_key}</a>,
    },
    { head: say.waiting, kind: "number", cell: (key) => key.waiting },
    {
      head: say.because_of,
      kind: "number",
      cell: ({ job_run_id }) => job_run_id ? <a href={link(on, `/runs/${job_run_id}`)}>{job_run_id}</a> : <Nothing />,
    },
    { head: say.reason, kind: "main", cell: (key) => engineText(on.lang, key.reason ?? "") },
    { head: say.by, cell: (key) => key.stopped_by },
    { head: say.since, kind: "wide", cell: (key) => <Time on={on} at={key.stopped_at} /> },
    ...(may(on, "operator") ? [act] : []),
  ];
}

function resourceColumns(on: RequestContext): TableColumn<Stock>[] {
  const say = QUEUE[on.lang];
  const act: TableColumn<Stock> = {
    head: ACTIONS[on.lang].head,
    unseen: true,
    cell: (one) => <DialogButton opens={`remove-${encodeURIComponent(one.name)}`} text={say.remove} danger />,
  };
  return [
    { head: say.resource, cell: (one) => one.name },
    { head: say.taken, kind: "number", cell: (one) => one.taken },
    { head: say.capacity, kind: "number", cell: (one) => one.capacity },
    {
      head: say.taken,
      unseen: true,
      kind: "main",
      cell: (one) => <meter value={one.taken} min={0} max={Math.max(1, one.capacity)} aria-label={say.taken}></meter>,
    },
    ...(may(on, "operator") ? [act] : []),
  ];
}

function Forms({ on, resources }: { on: RequestContext; resources: Stock[] }) {
  const say = QUEUE[on.lang];
  return (
    <>
      <div class="columns">
        <section>
          <h2>{say.set_resource}</h2>
          <form class="start" method="post" action={link(on, "/queue/resources")}>
            <div class="fields">
              <label>
                {say.resource}
                <input name="name" maxlength={100} required autocomplete="off" list="resource-names" />
                <datalist id="resource-names">{resources.map(({ name }) => <option value={name} />)}</datalist>
              </label>
              <label>
                {say.capacity}
                <input type="number" name="capacity" min={0} required />
              </label>
              <ReasonField on={on} />
            </div>
            <Csrf on={on} />
            <div class="buttons">
              <button type="submit">{say.set}</button>
            </div>
          </form>
        </section>
        <section>
          <h2>{say.stop_a_key}</h2>
          <form class="start" method="get" action={link(on, "/queue/pause")}>
            <input type="hidden" name="do" value="pause" />
            <label>
              {say.key}
              <input name="key" maxlength={500} required autocomplete="off" spellcheck={false} />
            </label>
            <div class="buttons">
              <button type="submit">{say.stop_key}</button>
            </div>
          </form>
        </section>
      </div>
      {resources.map(({ name, taken }) => (
        <ConfirmDialog
          on={on}
          id={`remove-${encodeURIComponent(name)}`}
          title={say.remove_title(name)}
          action="/queue/resources/remove"
          verb={say.remove}
          danger
        >
          <p>{say.remove_text(taken)}</p>
          <input type="hidden" name="name" value={name} />
        </ConfirmDialog>
      ))}
    </>
  );
}
