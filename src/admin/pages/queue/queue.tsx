/** The queue: what waits and why, what is stopped and by whom, and how much there is of each resource. */
import { ACTIVE, WAITING } from "../../../runs/run_states.ts";
import { listStoppedKeys, type QueueLine, readQueue, type StoppedKey } from "../../../dispatch/pauses.ts";
import { readResources } from "../../../dispatch/dispatch_queues.ts";
import { DispatchPaused, readDispatch } from "../../parts/dispatch.tsx";
import { ConfirmDialog, Csrf, DialogButton, ReasonField } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { Empty } from "../../parts/notes.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { waitText } from "../../../locale/wait_text.ts";
import { link, may, type Page, type RequestContext } from "../../request_context.ts";
import { saidText, t } from "../../../locale/locale.ts";

type Stock = Awaited<ReturnType<typeof readResources>>[number];

export async function showQueue(on: RequestContext): Promise<Page> {
  const [dispatch, lines, keys, stock] = await Promise.all([
    readDispatch(on),
    readQueue(on.sql),
    listStoppedKeys(on.sql),
    readResources(on.sql),
  ]);
  const resources = stock.sort((a, b) => a.name < b.name ? -1 : 1);
  return {
    title: t(on, "queue.queue"),
    body: (
      <>
        <Live on={on} id="queue" topics={["runs", "jobs", "settings", "audit"]}>
          <Heading on={on} paused={dispatch.paused} />
          <DispatchPaused on={on} dispatch={dispatch} />
          <section>
            <h2>{t(on, "queue.jobs")}</h2>
            {lines.length > 0
              ? <Table columns={jobColumns(on)} rows={lines} label={t(on, "queue.jobs")} />
              : <p class="nothing">{t(on, "queue.none")}</p>}
          </section>
          <section>
            <h2>{t(on, "queue.keys")}</h2>
            {keys.length > 0
              ? <Table columns={keyColumns(on)} rows={keys} label={t(on, "queue.keys")} />
              : <p class="nothing">{t(on, "queue.keys_none")}</p>}
          </section>
          <section>
            <h2>{t(on, "queue.resources")}</h2>
            {resources.length > 0
              ? <Table columns={resourceColumns(on)} rows={resources} label={t(on, "queue.resources")} />
              : <Empty text={t(on, "queue.resources_none")} />}
          </section>
        </Live>
        {may(on, "operator") && <Forms on={on} resources={resources} />}
      </>
    ),
  };
}

function Heading({ on, paused }: { on: RequestContext; paused: boolean }) {
  return (
    <div class="heading">
      <h1>
        {t(on, "queue.queue")} {!paused && <small>{t(on, "queue.dispatch_running")}</small>}
      </h1>
      {may(on, "operator") && (
        <div class="buttons">
          <Ask
            on={on}
            verb={paused ? "resume" : "pause"}
            text={paused ? t(on, "queue.resume_all") : t(on, "queue.pause_all")}
            all
          />
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
    head: t(on, "table.head"),
    unseen: true,
    cell: ({ job_name, paused_by }) =>
      paused_by === null
        ? <Ask on={on} verb="pause" text={t(on, "queue.pause")} job={job_name} />
        : <Ask on={on} verb="resume" text={t(on, "queue.resume")} job={job_name} />,
  };
  return [
    { head: t(on, "queue.job"), cell: (line) => <a href={link(on, `/jobs/${line.job_name}`)}>{line.job_name}</a> },
    { head: t(on, "queue.priority"), kind: "wide", cell: (line) => line.priority },
    { head: t(on, "queue.waiting"), kind: "number", cell: (line) => runs(line, line.waiting, WAITING) },
    { head: t(on, "queue.running"), kind: "number", cell: (line) => runs(line, line.running, ACTIVE) },
    { head: t(on, "queue.oldest"), kind: "wide", cell: (line) => <Time on={on} at={line.oldest_due_at} /> },
    { head: t(on, "queue.why"), kind: "main", cell: (line) => whyIdle(on, line) },
    ...(may(on, "operator") ? [actions] : []),
  ];
}

function whyIdle(on: RequestContext, { paused_by, paused_reason, waits, held, later, suspended }: QueueLine): string {
  if (paused_by !== null) {
    return t(on, "queue.paused_by", { who: paused_by, why: saidText(on, paused_reason ?? "") });
  }
  const reasons = waits.map((one) => waitText(on, one));
  return [
    ...new Set(reasons),
    ...held > 0 ? [t(on, "queue.held", { n: held })] : [],
    ...later > 0 ? [t(on, "queue.later", { n: later })] : [],
    ...suspended > 0 ? [t(on, "queue.suspended", { n: suspended })] : [],
  ].join("; ");
}

function keyColumns(on: RequestContext): TableColumn<StoppedKey>[] {
  const act: TableColumn<StoppedKey> = {
    head: t(on, "table.head"),
    unseen: true,
    cell: ({ serial_key }) => <Ask on={on} verb="resume" text={t(on, "queue.unblock")} serial_key={serial_key} />,
  };
  return [
    {
      head: t(on, "queue.key"),
      cell: ({ serial_key }) => <a href={link(on, "/runs", { "serial-key": serial_key })}>{serial_key}</a>,
    },
    { head: t(on, "queue.waiting"), kind: "number", cell: (key) => key.waiting },
    {
      head: t(on, "queue.because_of"),
      kind: "number",
      cell: ({ job_run_id }) => job_run_id ? <a href={link(on, `/runs/${job_run_id}`)}>{job_run_id}</a> : <Nothing />,
    },
    { head: t(on, "queue.reason"), kind: "main", cell: (key) => saidText(on, key.reason ?? "") },
    { head: t(on, "queue.by"), cell: (key) => key.stopped_by },
    { head: t(on, "queue.since"), kind: "wide", cell: (key) => <Time on={on} at={key.stopped_at} /> },
    ...(may(on, "operator") ? [act] : []),
  ];
}

function resourceColumns(on: RequestContext): TableColumn<Stock>[] {
  const act: TableColumn<Stock> = {
    head: t(on, "table.head"),
    unseen: true,
    cell: (one) => (
      <DialogButton
        opens={`remove-${encodeURIComponent(one.name)}`}
        text={t(on, "queue.remove")}
        danger
      />
    ),
  };
  return [
    { head: t(on, "queue.resource"), cell: (one) => one.name },
    { head: t(on, "queue.taken"), kind: "number", cell: (one) => one.taken },
    { head: t(on, "queue.capacity"), kind: "number", cell: (one) => one.capacity },
    {
      head: t(on, "queue.taken"),
      unseen: true,
      kind: "main",
      cell: (one) => (
        <meter value={one.taken} min={0} max={Math.max(1, one.capacity)} aria-label={t(on, "queue.taken")}></meter>
      ),
    },
    ...(may(on, "operator") ? [act] : []),
  ];
}

function Forms({ on, resources }: { on: RequestContext; resources: Stock[] }) {
  return (
    <>
      <div class="columns">
        <section>
          <h2>{t(on, "queue.set_resource")}</h2>
          <form class="start" method="post" action={link(on, "/queue/resources")}>
            <div class="fields">
              <label>
                {t(on, "queue.resource")}
                <input name="name" maxlength={100} required autocomplete="off" list="resource-names" />
                <datalist id="resource-names">{resources.map(({ name }) => <option value={name} />)}</datalist>
              </label>
              <label>
                {t(on, "queue.capacity")}
                <input type="number" name="capacity" min={0} required />
              </label>
              <ReasonField on={on} />
            </div>
            <Csrf on={on} />
            <div class="buttons">
              <button type="submit">{t(on, "queue.set")}</button>
            </div>
          </form>
        </section>
        <section>
          <h2>{t(on, "queue.stop_a_key")}</h2>
          <form class="start" method="get" action={link(on, "/queue/pause")}>
            <input type="hidden" name="do" value="pause" />
            <label>
              {t(on, "queue.key")}
              <input name="key" maxlength={500} required autocomplete="off" spellcheck={false} />
            </label>
            <div class="buttons">
              <button type="submit">{t(on, "queue.stop_key")}</button>
            </div>
          </form>
        </section>
      </div>
      {resources.map(({ name, taken }) => (
        <ConfirmDialog
          on={on}
          id={`remove-${encodeURIComponent(name)}`}
          title={t(on, "queue.remove_title", { name })}
          action="/queue/resources/remove"
          verb={t(on, "queue.remove")}
          danger
        >
          <p>{t(on, "queue.remove_text", { taken })}</p>
          <input type="hidden" name="name" value={name} />
        </ConfirmDialog>
      ))}
    </>
  );
}
