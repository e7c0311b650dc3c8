/** `secret`: a key for callback addresses. It is stored nowhere. */
import { say } from "../../app/output.ts";
import { makeCallbackSecret } from "../../steps/callback_address.ts";

export function secretCommand(): void {
  say(makeCallbackSecret());
}
