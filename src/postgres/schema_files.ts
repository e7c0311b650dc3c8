/** The schema as the checkout has it: schema.sql, whole, and migrations/, by which a database of an earlier version becomes the same. */
import { createHash } from "node:crypto";
import { PROJECT_DIR } from "../platform/config.ts";

export interface Migration {
  /** From 1, without gaps. */
  version: number;
  name: string;
  /** expand: programs of the version before go on beside it; contract: they must be gone. */
  kind: "expand" | "contract";
  text: string;
  digest: string;
}

export interface SchemaFiles {
  /** Of schema.sql. */
  text: string;
  /** In their order; the first makes all of version 0.1.0. */
  migrations: Migration[];
}

export function readSchema(dir = PROJECT_DIR): SchemaFiles {
  const names = [...Deno.readDirSync(`${dir}/migrations`)].map(({ name }) => name).filter((name) =>
    name.endsWith(".sql")
  );
  const migrations = names.sort().map((file, place) => {
    const [, version, kind, name] = FILE.exec(file) ?? [];
    if (Number(version) !== place + 1) {
      throw new Error(
        `Cannot read migrations/${file}: its name does not follow the one before; ` +
          `call it ${String(place + 1).padStart(4, "0")}_expand_NAME.sql or ${
            String(place + 1).padStart(4, "0")
          }_contract_NAME.sql`,
      );
    }
    const text = Deno.readTextFileSync(`${dir}/migrations/${file}`);
    return { version: place + 1, name: name as string, kind: kind as Migration["kind"], text, digest: digestOf(text) };
  });
  return { text: Deno.readTextFileSync(`${dir}/schema.sql`), migrations };
}

const FILE = /^(\d{4})_(expand|contract)_([a-z0-9_]+)\.sql$/;

/** Not of its comments: they may be put better later. */
function digestOf(text: string): string {
  return createHash("sha256").update(text.replace(/^\s*--.*\n/gm, "")).digest("hex").slice(0, 16);
}

export function versionOf({ migrations }: SchemaFiles): number {
  return migrations.length;
}

/** All that there are, or have been. */
export function tablesOf({ text, migrations }: SchemaFiles): string[] {
  const all = [text, ...migrations.map((one) => one.text)].join("\n");
  return [...new Set([...all.matchAll(/^create table (\w+)/gm)].map(([, name]) => name as string))];
}
