/**
 * From page to page of a list: of one that may be endless by the id at its edge, so that what is added meanwhile moves nothing; of one that is read as a
 * whole by the number of the page.
 */
import { link, type RequestContext } from "../request_context.ts";
import { t } from "../../locale/locale.ts";

export const PAGE_SIZE = 50;

/** Where a list goes on, as the URL says: `before` or `after` an id. */
export function edgeOf(on: RequestContext): { before?: number; after?: number } {
  const number = (name: string) => {
    const text = on.query.get(name) ?? "";
    return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
  };
  const before = number("before");
  return before !== undefined ? { before } : { after: number("after") };
}

interface Edge {
  before?: number;
  after?: number;
}

interface PageRows<Row> {
  rows: Row[];
  newer: boolean;
  older: boolean;
  /** Where the search for more goes on: so far it was looked, in the direction of the page. */
  looked_to?: number;
}

/** What of `found` (one more than a page was asked for, newest first) is this page, and whether there is more, or may be. */
export function pageOf<Row extends { id: number }>(found: Row[], edge: Edge, looked_to: number | null = null) {
  const more = found.length > PAGE_SIZE;
  const upwards = edge.after !== undefined;
  const rows = upwards ? found.slice(-PAGE_SIZE) : found.slice(0, PAGE_SIZE);
  const further = !more && looked_to !== null;
  return {
    rows,
    newer: upwards ? more || further : edge.before !== undefined,
    older: upwards || more || further,
    looked_to: further ? looked_to : undefined,
  };
}

export function Pager<Row extends { id: number }>({ on, page }: { on: RequestContext; page: PageRows<Row> }) {
  const upwards = edgeOf(on).after !== undefined;
  const first = (upwards ? page.looked_to : undefined) ?? page.rows.at(0)?.id;
  const last = (upwards ? undefined : page.looked_to) ?? page.rows.at(-1)?.id;
  const step = (text: string, there: boolean, edge?: "before" | "after", id?: number) => (
    <Step on={on} text={text} to={there ? edge ? [edge, String(id)] : [] : undefined} />
  );
  return (
    <nav class="pager" aria-label={t(on, "pager.pages")}>
      {page.looked_to !== undefined && <span class="nothing">{t(on, "pager.looked_to", { id: page.looked_to })}</span>}
      {step(t(on, "pager.newest"), page.newer)}
      {step(t(on, "pager.newer"), page.newer && first !== undefined, "after", first)}
      {step(t(on, "pager.older"), page.older && last !== undefined, "before", last)}
    </nav>
  );
}

/** A page of `most` of all `rows`, the one that the URL names. */
export function partOf<Row>(on: RequestContext, rows: Row[], most: number): Part<Row> {
  const wanted = /^[1-9]\d{0,8}$/.test(on.query.get("page") ?? "") ? Number(on.query.get("page")) : 1;
  const page = Math.min(wanted, Math.max(1, Math.ceil(rows.length / most)));
  const first = (page - 1) * most;
  return { rows: rows.slice(first, first + most), page, first, all: rows.length };
}

interface Part<Row> {
  rows: Row[];
  page: number;
  /** How many come before it. */
  first: number;
  all: number;
}

/** Nothing where all are on one page. */
export function PartPager<Row>({ on, part: { rows, page, first, all } }: { on: RequestContext; part: Part<Row> }) {
  if (rows.length === all) return null;
  const count = (number: number) => number.toLocaleString(on.lang);
  const last = first + rows.length;
  return (
    <nav class="pager" aria-label={t(on, "pager.pages")}>
      <span class="nothing">
        {t(on, "pager.part", { first: count(first + 1), last: count(last), all: count(all) })}
      </span>
      <Step on={on} text={t(on, "pager.previous")} to={page > 1 ? ["page", String(page - 1)] : undefined} />
      <Step on={on} text={t(on, "pager.next")} to={last < all ? ["page", String(page + 1)] : undefined} />
    </nav>
  );
}

/** To another page under the same filter; without `to` there is none. */
function Step({ on, text, to }: { on: RequestContext; text: string; to: string[] | undefined }) {
  if (!to) return <span class="button off" aria-disabled="true">{text}</span>;
  const filter = [...on.query].filter(([name]) => !["before", "after", "page"].includes(name));
  const query = new URLSearchParams(to.length > 0 ? [...filter, to] : filter);
  return <a class="button" href={link(on, on.path, query)}>{text}</a>;
}
