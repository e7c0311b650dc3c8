/** The version of this program, as deno.json names it. */
import project from "../../deno.json" with { type: "json" };

/** Two may work side by side only where their schema.sql and proto/ are the same (docs/operations.md). */
export const VERSION: string = project.version;
