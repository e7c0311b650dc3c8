/** The version of this program, as deno.json names it. */
import project from "../../deno.json" with { type: "json" };

/** Two may work side by side only where their proto/ is the same and no migration contracts (docs/operations.md#upgrade). */
export const VERSION: string = project.version;
