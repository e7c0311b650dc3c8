/** Rows. On a narrow screen columns marked `wide` are left out and the rest scrolls inside its box, never the page. */
import type { Child } from "hono/jsx";

/** Above a column of buttons. */
export interface TableColumn<Row> {
  head: string;
  /** It is read out, and not shown: what stands below needs no name for who sees it. */
  unseen?: boolean;
  cell(row: Row): Child;
  /** `number`: right, figures of one width. `wide`: only where there is room. `main`: takes what is left. `text`: words, not one to a line. */
  kind?: "number" | "wide" | "main" | "text";
}

export function Table<Row>(
  { columns, rows, label }: { columns: TableColumn<Row>[]; rows: Row[]; label: string },
) {
  return (
    <div class="scroll" role="region" aria-label={label} tabindex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(({ head, kind, unseen }) => (
              <th scope="col" class={kind}>{unseen ? <span class="hidden-text">{head}</span> : head}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => <tr>{columns.map(({ cell, kind }) => <td class={kind}>{cell(row)}</td>)}</tr>)}
        </tbody>
      </table>
    </div>
  );
}
