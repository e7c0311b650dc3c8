/** Texts for people. */

/** What users supply may hold escape sequences; a terminal must not obey them. Tabs and line ends stay. */
export function harmless(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "\uFFFD");
}
