/** Messages in what programs, logs and terminals read: in English. */
import { knownMessage, messageText, type Viewer } from "./locale.ts";

export const ENGLISH: Viewer = { lang: "en" };

/** A stored text as people read it. */
export function english(text: string): string;
export function english(text: string | null): string | null;
export function english(text: string | null): string | null {
  const found = text === null ? undefined : knownMessage(text);
  return found ? messageText(ENGLISH, found) : text;
}

/** The same value, with each message in it as its text; `messages`: and beside it, as `NAME_message`, the code and the params. */
export function inEnglish(value: unknown, { messages = false } = {}): unknown {
  if (typeof value === "string") return english(value);
  if (Array.isArray(value)) return value.map((one) => inEnglish(one, { messages }));
  if (typeof value !== "object" || value === null || !isPlain(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, one]) => {
      const found = messages && typeof one === "string" ? knownMessage(one) : undefined;
      return found
        ? [[name, messageText(ENGLISH, found)], [`${name}_message`, found]]
        : [[name, inEnglish(one, { messages })]];
    }),
  );
}

/** What has its own JSON, as an instant has, stays as it is. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
