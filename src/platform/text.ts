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

/**
 * What users supply may hold escape sequences, which a terminal must not obey, and signs that turn the order of letters around, by which a text
 * looks like another one. Both are shown as marks. Tabs and line ends stay.
 */
export function harmless(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "\uFFFD").replace(
    /[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (sign) => `⟨U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}

/** Whether a text fits one line of a page, and Postgres. */
export function isOneLine(text: string): boolean {
  return !/\p{Cc}/u.test(text) && text.isWellFormed();
}

export function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}
