/** Texts for people. */

/** "1 run", "2 runs", "5000+ runs". */
export function counted(count: number | string, noun: string): string {
  return `${count} ${noun}${String(count) === "1" ? "" : "s"}`;
}

/** host:port as it is dialed: an address of IPv6 stands in brackets. */
export function addressText(host: string, port: number): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** The address of a server as it may be shown: without its login, to the last @, since a password may hold others, and without what follows a `?`. */
export function withoutPassword(url: string): string {
  return url.replace(/\/\/.*@/s, "//…@").replace(/[?#].*/s, "");
}

/** What an error says, and of what else was thrown whatever it is. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** What users supply may hold escape sequences; a terminal must not obey them. Tabs and line ends stay. */
export function harmless(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "\uFFFD");
}
