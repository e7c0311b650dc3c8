/** The version of this program. Two may work side by side only where their schema.sql and proto/ are the same (docs/operations.md). */
export const VERSION = "0.1.0";
