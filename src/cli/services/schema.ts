/** `schema`: the tables of schema.sql, in the database of DATABASE_URL. Applying it again changes nothing. */
import { PROJECT_DIR } from "../../platform/config.ts";
import { connectDb, type Sql } from "../../postgres/connection.ts";
import { applySchema } from "../../postgres/schema.ts";
import type { JsonOption } from "../operator.ts";
import { readConfigForDb } from "../../app/opening.ts";
import { printJson, say } from "../../app/output.ts";

export async function schemaCommand(options: JsonOption): Promise<void> {
  const sql = connectDb(readConfigForDb().database_url, { name: "schema", max: 1, statement_timeout_ms: 0 });
  try {
    const before = await look(sql);
    await applySchema(sql, Deno.readTextFileSync(`${PROJECT_DIR}/schema.sql`));
    const after = await look(sql);
    const made = after.tables.filter((table) => !before.tables.includes(table));
    if (options.json) return printJson({ database: after.database, tables: after.tables.length, made });
    const what = made.length === 0 ? `its ${after.tables.length} tables were there already` : `made ${made.join(", ")}`;
    say(`schema.sql applied to database "${after.database}": ${what}; next: deno task sync`);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function look(sql: Sql): Promise<{ database: string; tables: string[] }> {
  const [row] = await sql<{ database: string; tables: string[] }[]>`
    select current_database() as database,
           array(select tablename::text from pg_tables where schemaname = current_schema() order by 1) as tables`;
  return row ?? { database: "", tables: [] };
}
