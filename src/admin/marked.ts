/**
 * The last step of each page, so that no place can be forgotten: signs that cannot be seen, or that turn the order of letters around, become
 * marks, wherever they came from; and what is written from right to left is isolated (`<bdi>`), so that it cannot move the words and numbers
 * around it. What a form sends back stays as it is, and so do addresses.
 */
import { harmless } from "../platform/text.ts";

/** A tag, and of a textarea all of it. Within quotes no ">" stands as it is: the pages' own renderer escapes it. */
const TAGS = /(<textarea[^>]*>.*?<\/textarea>|<[^>]*>)/s;
const SAID = / (title|aria-label)="([^"]*)"/g;

export function marked(html: string): string {
  const parts = html.split(TAGS);
  return parts.map((part, place) => {
    if (place % 2 === 1) return part.startsWith("<textarea") ? part : inTag(part);
    return TEXT_ALONE.test(parts[place - 1] ?? "") ? shown(part) : isolated(shown(part));
  }).join("");
}

function inTag(tag: string): string {
  return tag.replace(SAID, (_, name, text) => ` ${name}="${shown(text)}"`);
}

function shown(text: string): string {
  return harmless(text.replaceAll("\r\n", "\n"));
}

/** Elements that hold text and no other element, or text that is isolated already. */
const TEXT_ALONE = /^<(title|option|script|style|bdi)\b/;

const LETTER = String.raw`[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]`;
/** Letters that are written from right to left, with the blanks, digits and signs between them. */
const RIGHT_TO_LEFT = new RegExp(`${LETTER}(?:[^\\p{Alphabetic}<>&]*${LETTER})*`, "gu");

/** The whole, since it may be a sentence of theirs; and within it each part, since it may stand among words of ours. */
function isolated(text: string): string {
  const parts = text.replace(RIGHT_TO_LEFT, "<bdi>$&</bdi>");
  return parts === text ? text : `<bdi>${parts}</bdi>`;
}
