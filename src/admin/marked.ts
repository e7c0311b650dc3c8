/**
 * The last step of each page: signs that cannot be seen, or that turn the order of letters around, become marks, wherever they came from. What
 * a form sends back stays as it is, and so do addresses.
 */
import { harmless } from "../platform/text.ts";

/** A tag, and of a textarea all of it. Within quotes no ">" stands as it is: the pages' own renderer escapes it. */
const TAGS = /(<textarea[^>]*>.*?<\/textarea>|<[^>]*>)/s;
const SAID = / (title|aria-label)="([^"]*)"/g;

export function marked(html: string): string {
  const parts = html.split(TAGS);
  return parts.map((part, place) => place % 2 === 0 ? shown(part) : part.startsWith("<textarea") ? part : inTag(part))
    .join("");
}

function inTag(tag: string): string {
  return tag.replace(SAID, (_, name, text) => ` ${name}="${shown(text)}"`);
}

function shown(text: string): string {
  return harmless(text.replaceAll("\r\n", "\n"));
}
