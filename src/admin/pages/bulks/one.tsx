/** One bulk: how far and how fast, what sets its pace, why its runs fail, and what can be done to it. */
import { type Aftermath, type FailureKind, failureKinds, readAftermath, readPace } from "../../../bulks/bulk_items.ts";
import { type BulkView, readBulk } from "../../../bulks/bulk_view.ts";
import { durationText } from "../../assets/ago.js";
import { State } from "../../parts/badge.tsx";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { KeyValues } from "../../parts/notes.tsx";
import { Table } from "../../parts/table.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { Why } from "../../parts/why.tsx";
import { idParam, link, may, type Page, PageError, type RequestContext } from "../../request_context.ts";
import { bandText, Counts, countText, endedOf, rateText, shareText } from "./figures.tsx";
import { PaceChart, PaceControls, SLICES } from "./pace.tsx";
import { firstLine } from "../../../platform/text.ts";
import { saidText, t } from "../../../locale/locale.ts";

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
    title: `${t(on, "bulks.bulk", { id })} · ${bulk.job_name}`,
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
  return (
    <div class="heading">
      <h1>
        {t(on, "bulks.bulk", { id: bulk.id })} <State state={bulk.state} />
        <small>
          {bulk.name && `${bulk.name} · `}
          {t(on, "bulks.of_job")} <a href={link(on, "/runs", { job: bulk.job_name })}>{bulk.job_name}</a>
        </small>
      </h1>
      {may(on, "operator") && (
        <div class="buttons">
          {retryableOf({ on, bulk, after }) > 0 && (
            <DialogButton
              opens="retry"
              text={t(on, "bulks.retry", { n: countText(retryableOf({ on, bulk, after })) })}
            />
          )}
          {isOpen(bulk) && (bulk.state === "PAUSED"
            ? <DialogButton opens="resume" text={t(on, "bulks.resume")} />
            : <DialogButton opens="pause" text={t(on, "bulks.pause")} />)}
          {isOpen(bulk) && <DialogButton opens="cancel" text={t(on, "bulks.cancel")} danger />}
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
  const lately = pace.slice(-2).reduce((sum, { ended }) => sum + ended, 0) * 60 / (2 * SLICES.seconds);
  const seconds = (value: number) => durationText(value * 1_000);
  const { seconds_p25, seconds_p50, seconds_p75, throttled, parallel } = bulk;
  return (
    <section class="figures">
      <div class="whole">
        <progress value={bulk.progress} max={1} aria-label={t(on, "bulks.progress")}></progress>
        <strong>
          {t(on, "bulks.ended_of", {
            ended: countText(endedOf(bulk)),
            items: countText(bulk.items),
            share: shareText(bulk),
          })}
        </strong>
        <Counts on={on} bulk={bulk} />
      </div>
      {!bulk.finished_at && (
        <>
          <Figure name={t(on, "bulks.eta")} value={bandText(on, bulk)} hint={t(on, "bulks.eta_hint")} />
          <Figure
            name={t(on, "bulks.rate_now")}
            value={t(on, "bulks.rate_now_text", { n: rateText(lately) })}
            hint={bulk.per_minute === null
              ? t(on, "bulks.rate_now_hint")
              : t(on, "bulks.rate_last", { n: rateText(bulk.per_minute) })}
          />
          <Figure
            name={t(on, "bulks.running_now")}
            value={countText(bulk.running)}
            hint={throttled !== null && throttled < parallel
              ? t(on, "bulks.throttled", { to: throttled, of: parallel })
              : t(on, "bulks.running_of", { limit: bulk.running_limit })}
          />
        </>
      )}
      {seconds_p25 !== null && seconds_p50 !== null && seconds_p75 !== null && (
        <Figure
          name={t(on, "bulks.took")}
          value={seconds(seconds_p50)}
          hint={t(on, "bulks.took_hint", { from: seconds(seconds_p25), to: seconds(seconds_p75) })}
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
  return (
    <section>
      <h2>{t(on, "bulks.failures")}</h2>
      <Table
        label={t(on, "bulks.failures")}
        rows={kinds}
        columns={[
          { head: t(on, "bulks.runs"), kind: "number", cell: (kind) => countText(kind.runs) },
          { head: t(on, "bulks.error"), cell: (kind) => kind.error_name || <Nothing /> },
          {
            head: t(on, "bulks.example"),
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
            head: t(on, "table.head"),
            unseen: true,
            kind: "main",
            cell: (kind) => <span class="line">{firstLine(saidText(on, kind.error_summary ?? ""))}</span>,
          },
        ]}
      />
    </section>
  );
}

function Details({ on, bulk, after }: Shown) {
  const to_run = (id: number | null) =>
    id && <a href={link(on, `/runs/${id}`)}>{`${t(on, "bulks.at_end_run")} ${id}`}</a>;
  const to_bulk = (id: number) => <a href={link(on, `/bulks/${id}`)}>{id}</a>;
  const ends = (job: string | null, run: number | null) => job && <>{job} {to_run(run)}</>;
  return (
    <section>
      <h2>{t(on, "bulks.details")}</h2>
      <KeyValues
        pairs={[
          [t(on, "bulks.items"), <a href={link(on, `/bulks/${bulk.id}/items`)}>{t(on, "bulks.all_items")}</a>],
          [t(on, "bulks.runs"), <a href={link(on, "/runs", { bulk: bulk.id })}>{t(on, "bulks.all_runs")}</a>],
          [t(on, "bulks.on_finish"), ends(bulk.on_finish, after.finish_run_id)],
          [t(on, "bulks.on_failure"), ends(bulk.on_failure, after.failure_run_id)],
          [t(on, "bulks.retry_of"), bulk.retry_of && to_bulk(bulk.retry_of)],
          [t(on, "bulks.retried_by"), after.retried_by.length > 0 && after.retried_by.map((id) => <>{to_bulk(id)}</>)],
          [t(on, "bulks.serial_key"), bulk.serial_key],
          [t(on, "bulks.max_failures"), bulk.max_failures],
          [t(on, "bulks.throttle_above"), bulk.throttle_above !== null && `${Math.round(bulk.throttle_above * 100)} %`],
          [t(on, "bulks.created_by"), bulk.created_by],
          [t(on, "bulks.created"), <Time on={on} at={bulk.created_at} />],
          [t(on, "bulks.started"), bulk.started_at && <Time on={on} at={bulk.started_at} />],
          [t(on, "bulks.finished"), bulk.finished_at && <Time on={on} at={bulk.finished_at} />],
          [t(on, "bulks.changed_by"), bulk.changed_by],
          [t(on, "bulks.reason"), saidText(on, bulk.reason ?? "")],
        ].filter((pair): pair is [string, string] => pair[1] !== false)}
      />
    </section>
  );
}

/** Each is there also where its button is not just now: the button comes and goes while the page is live. */
function Dialogs({ on, bulk, after }: Shown) {
  const left = countText(bulk.items - bulk.fed);
  const to = (verb: string) => `/bulks/${bulk.id}/${verb}`;
  return (
    <>
      <ConfirmDialog
        on={on}
        id="pause"
        title={t(on, "bulks.pause_title", { id: bulk.id })}
        action={to("pause")}
        verb={t(on, "bulks.pause")}
      >
        <p>{t(on, "bulks.pause_text", { running: bulk.running, left })}</p>
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="resume"
        title={t(on, "bulks.resume_title", { id: bulk.id })}
        action={to("resume")}
        verb={t(on, "bulks.resume")}
      >
        <p>{t(on, "bulks.resume_text", { left, parallel: bulk.parallel })}</p>
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="cancel"
        title={t(on, "bulks.cancel_title", { id: bulk.id })}
        action={to("cancel")}
        verb={t(on, "bulks.cancel")}
        danger
      >
        <p>{t(on, "bulks.cancel_text", { running: bulk.running, left })}</p>
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="retry"
        title={t(on, "bulks.retry_title", { id: bulk.id })}
        action={to("retry")}
        verb={t(on, "bulks.retry", { n: countText(retryableOf({ on, bulk, after })) })}
      >
        <p>{t(on, "bulks.retry_text", { n: countText(retryableOf({ on, bulk, after })), job: bulk.job_name })}</p>
      </ConfirmDialog>
    </>
  );
}
