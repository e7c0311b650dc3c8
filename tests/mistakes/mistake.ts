/** What one planted mistake is. `deno task mistakes` plants each alone and expects that one of the tests it names fails. */

export interface Mistake {
  /** Unique among all, in kebab-case: what goes wrong. */
  id: string;
  /** Where, from the project's folder: "src/runs/states.ts", "schema.sql". */
  file: string;
  /** Occurs there exactly once: as many lines as it takes, and no more. */
  find: string;
  /** What stands there instead. The file still loads: one that does not is caught by everything, and so proves nothing. */
  replace: string;
  /** The cheapest test files that notice it, from the project's folder. */
  tests: string[];
  /** Which of their tests, as `deno test --filter` takes it: a part of the name that stands in the file, or a pattern between slashes. */
  filter?: string;
  /** What it would do to a user, in one sentence. */
  why: string;
}
