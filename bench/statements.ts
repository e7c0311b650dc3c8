/** What Postgres spent on a workload's runs, statement by statement, for `--statements`. */
import type { Statement } from "./servers.ts";

const MOST = 20;

export function showStatements(statements: Statement[], runs: number, of = ""): void {
  const columns = ["ms/1000", "calls", "rows", "pages", "wal kB"].map((name) => name.padStart(9)).join("");
  console.log(`\n${of}${of && "\n"}${columns}  statement`);
  for (const { query, calls, total_ms, rows, pages, wal_bytes } of statements.slice(0, MOST)) {
    const figures = [
      (total_ms * 1_000 / runs).toFixed(2),
      calls,
      rows,
      (pages / calls).toFixed(0),
      (wal_bytes / 1024 / calls).toFixed(1),
    ];
    const text = query.replace(/\s+/g, " ").slice(0, 130);
    console.log(`${figures.map((figure) => String(figure).padStart(9)).join("")}  ${text}`);
  }
}
