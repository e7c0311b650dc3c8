/** The pace of a bulk: how fast it has been, and what sets it, at work as soon as it is moved. */
import type { BulkView } from "../../../bulks/bulk_view.ts";
import { Csrf } from "../../parts/dialog.tsx";
import { link, type RequestContext } from "../../request_context.ts";
import { PACE } from "./acts.ts";
import { t } from "../../../locale/locale.ts";

/** What the chart shows: the last five minutes. */
export const SLICES = { slices: 60, seconds: 5 };

const BAR = 10;
const HEIGHT = 60;

/** Bars grow from the bottom; the part that failed stands in each from its foot. */
export function PaceChart({ on, pace }: { on: RequestContext; pace: { ended: number; failed: number }[] }) {
  const most = Math.max(...pace.map(({ ended }) => ended));
  const tall = (n: number) => most === 0 ? 0 : Math.round(n / most * HEIGHT * 10) / 10;
  const bar = (place: number, n: number, tone: string) =>
    n > 0 && <rect class={tone} x={place * BAR} y={HEIGHT - tall(n)} width={BAR - 2} height={tall(n)} />;
  return (
    <section>
      <h2>{t(on, "bulks.pace")}</h2>
      <svg
        class="chart"
        viewBox={`0 0 ${pace.length * BAR} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={t(on, "bulks.pace_label", { most })}
      >
        {pace.map(({ ended, failed }, place) => [bar(place, ended, "busy"), bar(place, failed, "bad")])}
      </svg>
    </section>
  );
}

/**
 * Each is a slider and a number: what is changed is sent when it is let go. The words below say before that what would come of
 * it; their id holds what it is compared with, so that they stay while the page is live, and begin anew once it holds.
 */
export function PaceControls({ on, bulk }: { on: RequestContext; bulk: BulkView }) {
  const action = link(on, `/bulks/${bulk.id}/pace`);
  const interval_max = scaleFor(bulk.interval_seconds, 60);
  return (
    <section>
      <h2>
        {t(on, "bulks.controls")} <small>{t(on, "bulks.controls_hint")}</small>
      </h2>
      <form
        id="pace"
        class="fields pace"
        method="post"
        action={action}
        hx-post={action}
        hx-trigger="change delay:250ms, submit"
        hx-target="#bulk"
        hx-select="#bulk"
        hx-swap="outerMorph"
        hx-sync="this:queue last"
      >
        <Csrf on={on} />
        <Dial
          on={on}
          name="parallel"
          label={t(on, "bulks.parallel")}
          value={bulk.parallel}
          min={1}
          max={scaleFor(bulk.parallel, 50)}
        />
        <Dial
          on={on}
          name="interval"
          label={t(on, "bulks.interval")}
          value={bulk.interval_seconds}
          min={0}
          max={interval_max}
          step="any"
        />
        <Dial
          on={on}
          name="priority"
          label={t(on, "bulks.priority")}
          value={bulk.priority}
          min={0}
          max={PACE.priority.to}
        />
        <noscript>
          <button type="submit">{t(on, "bulks.set")}</button>
        </noscript>
      </form>
      <div
        id={`what-if-${bulk.parallel}`}
        class="what-if"
        role="status"
        hx-morph-skip=""
        hx-get={link(on, `/bulks/${bulk.id}/what-if`)}
        hx-include="#pace [name=parallel]"
        hx-trigger="input from:#pace delay:80ms"
        hx-select="#forecast"
        hx-swap="innerHTML"
      >
        <p>{t(on, "bulks.what_if_hint")}</p>
      </div>
    </section>
  );
}

interface DialProps {
  on: RequestContext;
  name: keyof typeof PACE;
  label: string;
  value: number;
  min: number;
  /** Of the slider; the number may be more. */
  max: number;
  step?: "any";
}

function Dial({ on, name, label, value, min, max, step }: DialProps) {
  return (
    <div class="dial">
      <label>
        {label}
        <input
          id={name}
          type="number"
          name={name}
          value={String(value)}
          min={min}
          max={PACE[name].to}
          step={step}
          required
          data-twin={`${name}-slider`}
        />
      </label>
      <input
        id={`${name}-slider`}
        type="range"
        value={String(value)}
        min={min}
        max={max}
        step={step ? "0.5" : undefined}
        aria-label={t(on, "bulks.slider", { what: label })}
        data-twin={name}
      />
    </div>
  );
}

/** A round number with room above the value, the same for values that are near, so that a slider keeps its scale. */
function scaleFor(value: number, least: number): number {
  let scale = least;
  while (scale < value * 1.5) scale *= 2;
  return scale;
}
