/** From page to page of a list that may be endless: by the id at its edge, so that what is added meanwhile moves nothing. */
import { link, type Visit } from "../visit.ts";
import { words } from "../words.ts";

const WORDS = words({
  newest: { en: "Newest", ja: "最新" },
  newer: { en: "Newer", ja: "新しい方" },
  older: { en: "Older", ja: "古い方" },
  pages: { en: "Pages", ja: "ページ" },
  looked_to: {
    en: (id: number) => `Looked as far as ${id}; there may be more beyond it.`,
    ja: (id) => `${id} まで調べました。その先にもあるかもしれません。`,
  },
});

export const PAGE_SIZE = 50;

/** Where a list goes on, as the URL says: `before` or `after` an id. */
export function edgeOf(on: Visit): { before?: number; after?: number } {
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

export function Pager<Row extends { id: number }>({ on, page }: { on: Visit; page: PageRows<Row> }) {
  const upwards = edgeOf(on).after !== undefined;
  const say = WORDS[on.lang];
  const first = (upwards ? page.looked_to : undefined) ?? page.rows.at(0)?.id;
  const last = (upwards ? undefined : page.looked_to) ?? page.rows.at(-1)?.id;
  const step = (text: string, there: boolean, edge?: "before" | "after", id?: number) => {
    if (!there) return <span class="button off" aria-disabled="true">{text}</span>;
    const filter = [...on.query].filter(([name]) => name !== "before" && name !== "after");
    const query = new URLSearchParams(edge ? [...filter, [edge, String(id)]] : filter);
    return <a class="button" href={link(on, on.path, query)}>{text}</a>;
  };
  return (
    <nav class="pager" aria-label={say.pages}>
      {page.looked_to !== undefined && <span class="nothing">{say.looked_to(page.looked_to)}</span>}
      {step(say.newest, page.newer)}
      {step(say.newer, page.newer && first !== undefined, "after", first)}
      {step(say.older, page.older && last !== undefined, "before", last)}
    </nav>
  );
}
