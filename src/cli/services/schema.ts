/** `schema`: the tables, or the migrations that are missing, in the database of DATABASE_URL. Again it changes nothing. */
import { connectDb, type Sql } from "../../postgres/connection.ts";
import { applySchema } from "../../postgres/schema.ts";
import { readSchema } from "../../postgres/schema_files.ts";
import { actor, type JsonOption } from "../operator.ts";
import { readConfigForDb } from "../../app/opening.ts";
import { printJson, say } from "../../app/output.ts";

export async function schemaCommand(options: JsonOption): Promise<void> {
  const sql = connectDb(readConfigForDb().database_url, { name: "schema", max: 1, statement_timeout_ms: 0 });
  try {
    const { created, migrated, version } = await applySchema(sql, readSchema(), { by: actor() });
    const database = await databaseOf(sql);
    const applied = migrated.map(({ version, kind, name }) => ({ version, kind, name }));
    if (options.json) return printJson({ database, version, created, applied });
    const names = applied.map((one) => `${one.version} ${one.name} (${one.kind})`).join(", ");
    const what = created ? "its tables were created" : names ? `applied ${names}` : "nothing was missing";
    say(`database "${database}" has schema version ${version}: ${what}; next: deno task sync`);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function databaseOf(sql: Sql): Promise<string> {
  const [row] = await sql<{ database: string }[]>`select current_database() as database`;
  return row?.database ?? "";
}
