/** One bulk: how far and how fast, what sets its pace, why its runs fail, and what can be done to it. */
import { type Aftermath, type FailureKind, failureKinds, readAftermath, readPace } from "../../../bulks/bulk_items.ts";
import { type BulkView, readBulk } from "../../../bulks/bulk_view.ts";
import { durationText } from "../../assets/ago.js";
import { engineText } from "../../parts/engine_text.ts";
import { State } from "../../parts/badge.tsx";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { KeyValues } from "../../parts/notes.tsx";
import { ACTIONS, Table } from "../../parts/table.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { Why } from "../../parts/why.tsx";
import { idParam, link, may, type Page, PageError, type RequestContext } from "../../request_context.ts";
import { bandText, Counts, countText, endedOf, rateText, shareText } from "./figures.tsx";
import { PaceChart, PaceControls, SLICES } from "./pace.tsx";
import { BULKS } from "./words.ts";

const KINDS_SHOWN = 8;

interface Shown {
  on: RequestContext;
  bulk: BulkView;
  after: Aftermath;
}

export async function showBulk(on: RequestContext): Promise<Page> {
  const id = idParam(on);
  const bulk = await readBulk(on.sql, id);
  if (!bulk) throw new PageError(404);
  const [pace, kinds, after] = await Promise.all([
    readPace(on.sql, id, SLICES),
    bulk.failed > 0 ? failureKinds(on.sql, id, KINDS_SHOWN) : [],
    readAftermath(on.sql, id),
  ]);
  const shown = { on, bulk, after };
  return {
    title: `${BULKS[on.lang].bulk(id)} · ${bulk.job_name}`,
    body: (
      <>
        <Live on={on} id="bulk" topics={["bulks", "runs"]}>
          <Heading {...shown} />
          {bulk.waits && (
            <p class="now">
              <Why on={on} waits={bulk.waits} />
            </p>
          )}
          <Figures on={on} bulk={bulk} pace={pace} />
          {may(on, "operator") && isOpen(bulk) && <PaceControls on={on} bulk={bulk} />}
          {(isOpen(bulk) || pace.some(({ ended }) => ended > 0)) && <PaceChart on={on} pace={pace} />}
          {kinds.length > 0 && <Failures on={on} kinds={kinds} />}
          <Details {...shown} />
        </Live>
        {may(on, "operator") && <Dialogs {...shown} />}
      </>
    ),
  };
}

function isOpen(bulk: BulkView): boolean {
  return !bulk.finished_at && bulk.state !== "CANCELED";
}

function Heading({ on, bulk, after }: Shown) {
  const say = BULKS[on.lang];
  return (
    <div class="heading">
      <h1>
        {say.bulk(bulk.id)} <State state={bulk.state} />
        <small>
          {bulk.name && `${bulk.name} · `}
          {say.of_job} <a href={link(on, "/runs", { job: bulk.job_name })}>{bulk.job_name}</a>
        </small>
      </h1>
      {may(on, "operator") && (
        <div class="buttons">
          {retryableOf({ on, bulk, after }) > 0 && (
            <DialogButton opens="retry" text={say.retry(countText(retryableOf({ on, bulk, after })))} />
          )}
          {isOpen(bulk) && (bulk.state === "PAUSED"
            ? <DialogButton opens="resume" text={say.resume} />
            : <DialogButton opens="pause" text={say.pause} />)}
          {isOpen(bulk) && <DialogButton opens="cancel" text={say.cancel} danger />}
        </div>
      )}
    </div>
  );
}

/** What failed and no bulk repeats yet. */
function retryableOf({ bulk, after }: Shown): number {
  return Math.max(0, bulk.failed - after.repeated);
}

function Figures({ on, bulk, pace }: { on: RequestContext; bulk: BulkView; pace: { ended: number }[] }) {
  const say = BULKS[on.lang];
  const lately = pace.slice(-2).reduce((sum, { ended }) => sum + ended, 0) * 60 / (2 * SLICES.seconds);
  const seconds = (value: number) => durationText(value * 1_000);
  const { seconds_p25, seconds_p50, seconds_p75, throttled, parallel } = bulk;
  return (
    <section class="figures">
      <div class="whole">
        <progress value={bulk.progress} max={1} aria-label={say.progress}></progress>
        <strong>{say.ended_of(countText(endedOf(bulk)), countText(bulk.items), shareText(bulk))}</strong>
        <Counts on={on} bulk={bulk} />
      </div>
      {!bulk.finished_at && (
        <>
          <Figure name={say.eta} value={bandText(on, bulk)} hint={say.eta_hint} />
          <Figure
            name={say.rate_now}
            value={say.rate_now_text(rateText(lately))}
            hint={bulk.per_minute === null ? say.rate_now_hint : say.rate_last(rateText(bulk.per_minute))}
          />
          <Figure
            name={say.running_now}
            value={countText(bulk.running)}
            hint={throttled !== null && throttled < parallel
              ? say.throttled(throttled, parallel)
              : say.running_of(bulk.running_limit)}
          />
        </>
      )}
      {seconds_p25 !== null && seconds_p50 !== null && seconds_p75 !== null && (
        <Figure
          name={say.took}
          value={seconds(seconds_p50)}
          hint={say.took_hint(seconds(seconds_p25), seconds(seconds_p75))}
        />
      )}
    </section>
  );
}

function Figure({ name, value, hint }: { name: string; value: string; hint: string }) {
  return (
    <div class="figure">
      <small>{name}</small>
      <strong>{value}</strong>
      <small>{hint}</small>
    </div>
  );
}

function Failures({ on, kinds }: { on: RequestContext; kinds: FailureKind[] }) {
  const say = BULKS[on.lang];
  return (
    <section>
      <h2>{say.failures}</h2>
      <Table
        label={say.failures}
        rows={kinds}
        columns={[
          { head: say.runs, kind: "number", cell: (kind) => countText(kind.runs) },
          { head: say.error, cell: (kind) => kind.error_name || <Nothing /> },
          {
            head: say.example,
            kind: "number",
            cell: (kind) =>
              kind.examples.map(({ job_run_id }) => (
                <>
                  {" "}
                  <a href={link(on, `/runs/${job_run_id}`)}>{job_run_id}</a>
                </>
              )),
          },
          {
            head: ACTIONS[on.lang].head,
            unseen: true,
            kind: "main",
            cell: (kind) => <span class="line">{engineText(on.lang, kind.error_summary?.split("\n")[0] ?? "")}</span>,
          },
        ]}
      />
    </section>
  );
}

function Details({ on, bulk, after }: Shown) {
  const say = BULKS[on.lang];
  const to_run = (id: number | null) => id && <a href={link(on, `/runs/${id}`)}>{`${say.at_end_run} ${id}`}</a>;
  const to_bulk = (id: number) => <a href={link(on, `/bulks/${id}`)}>{id}</a>;
  const ends = (job: string | null, run: number | null) => job && <>{job} {to_run(run)}</>;
  return (
    <section>
      <h2>{say.details}</h2>
      <KeyValues
        pairs={[
          [say.items, <a href={link(on, `/bulks/${bulk.id}/items`)}>{say.all_items}</a>],
          [say.runs, <a href={link(on, "/runs", { bulk: bulk.id })}>{say.all_runs}</a>],
          [say.on_finish, ends(bulk.on_finish, after.finish_run_id)],
          [say.on_failure, ends(bulk.on_failure, after.failure_run_id)],
          [say.retry_of, bulk.retry_of && to_bulk(bulk.retry_of)],
          [say.retried_by, after.retried_by.length > 0 && after.retried_by.map((id) => <>{to_bulk(id)}</>)],
          [say.serial_key, bulk.serial_key],
          [say.max_failures, bulk.max_failures],
          [say.throttle_above, bulk.throttle_above !== null && `${Math.round(bulk.throttle_above * 100)} %`],
          [say.created_by, bulk.created_by],
          [say.created, <Time on={on} at={bulk.created_at} />],
          [say.started, bulk.started_at && <Time on={on} at={bulk.started_at} />],
          [say.finished, bulk.finished_at && <Time on={on} at={bulk.finished_at} />],
          [say.changed_by, bulk.changed_by],
          [say.reason, engineText(on.lang, bulk.reason ?? "")],
        ].filter((pair): pair is [string, string] => pair[1] !== false)}
      />
    </section>
  );
}

/** Each is there also where its button is not just now: the button comes and goes while the page is live. */
function Dialogs({ on, bulk, after }: Shown) {
  const say = BULKS[on.lang];
  const left = countText(bulk.items - bulk.fed);
  const to = (verb: string) => `/bulks/${bulk.id}/${verb}`;
  return (
    <>
      <ConfirmDialog on={on} id="pause" title={say.pause_title(bulk.id)} action={to("pause")} verb={say.pause}>
        <p>{say.pause_text(bulk.running, left)}</p>
      </ConfirmDialog>
      <ConfirmDialog on={on} id="resume" title={say.resume_title(bulk.id)} action={to("resume")} verb={say.resume}>
        <p>{say.resume_text(left, bulk.parallel)}</p>
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="cancel"
        title={say.cancel_title(bulk.id)}
        action={to("cancel")}
        verb={say.cancel}
        danger
      >
        <p>{say.cancel_text(bulk.running, left)}</p>
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="retry"
        title={say.retry_title(bulk.id)}
        action={to("retry")}
        verb={say.retry(countText(retryableOf({ on, bulk, after })))}
      >
        <p>{say.retry_text(countText(retryableOf({ on, bulk, after })), bulk.job_name)}</p>
      </ConfirmDialog>
    </>
  );
}
