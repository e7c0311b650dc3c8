/**
 * What the engine says to people, made where it happens and put into words where somebody reads it. A column of text that otherwise holds
 * what a person or a job said (why a run failed, the reason of an act) holds a message as JSON, `{"code": …, "params": …}`.
 */
import type { Messages } from "../../locales/params.ts";

export type MessageKey = keyof Messages;

/** The key of a text, and what the text is about. */
export interface Message<Key extends MessageKey = MessageKey> {
  code: Key;
  params: Messages[Key];
}

/** A message as it was read: another version may know other codes. */
export interface AnyMessage {
  code: string;
  params: object;
}

type NoParams = Record<string, never>;
export type ParamsOf<Key extends MessageKey> = [Messages[Key]] extends [NoParams] ? [] : [params: Messages[Key]];

export function message<Key extends MessageKey>(code: Key, ...[params]: ParamsOf<Key>): Message<Key> {
  return { code, params: (params ?? {}) as Messages[Key] };
}

/** A message as a column of text holds it. */
export function stored<Key extends MessageKey>(code: Key, ...params: ParamsOf<Key>): string {
  return JSON.stringify(message(code, ...params));
}

/** The message in a stored text; undefined: a person or a job said it. */
export function messageIn(text: string): AnyMessage | undefined {
  if (!/^\{"code": ?"/.test(text)) return undefined;
  try {
    const { code, params = {} } = JSON.parse(text);
    return typeof code === "string" && typeof params === "object" && params !== null ? { code, params } : undefined;
  } catch {
    return undefined;
  }
}
