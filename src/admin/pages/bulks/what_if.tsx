/** What another `parallel` would change, said while a slider moves and before anything is changed. */
import { type BulkView, type Forecast, forecastBulk } from "../../../bulks/bulk_view.ts";
import { idParam, type Page, PageError, type RequestContext } from "../../request_context.ts";
import { PACE } from "./acts.ts";
import { bandText } from "./figures.tsx";
import { t } from "../../../locale/locale.ts";

export async function showWhatIf(on: RequestContext): Promise<Page> {
  const id = idParam(on);
  const parallel = Number(on.query.get("parallel"));
  const { from, to } = PACE.parallel;
  const usable = Number.isInteger(parallel) && parallel >= from && parallel <= to;
  const found = await forecastBulk(on.sql, id, usable ? parallel : from);
  if (!found) throw new PageError(404);
  return {
    title: t(on, "bulks.bulk", { id }),
    body: <p id="forecast">{usable ? whatIfText(on, found) : t(on, "bulks.what_if_hint")}</p>,
  };
}

function whatIfText(on: RequestContext, { bulk, at }: { bulk: BulkView; at: Forecast }): string {
  if (bulk.finished_at || at.parallel === bulk.parallel) return t(on, "bulks.what_if_hint");
  if (!at.done_from) return t(on, "bulks.what_if_none");
  const said = t(on, "bulks.what_if", {
    parallel: at.parallel,
    now: bulk.parallel,
    then: bandText(on, at),
    band: bandText(on, bulk),
  });
  return at.at_once < at.parallel ? `${said}. ${t(on, "bulks.what_if_slots", { slots: at.at_once })}` : said;
}
