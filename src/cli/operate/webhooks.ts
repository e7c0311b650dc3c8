/** `hooks`: webhooks: signed events from other programs over HTTP with a secret. */
import { addHook, removeHook } from "../../actions/webhook_actions.ts";
import { listWebhooks, type Signature, SIGNATURES } from "../../events/webhooks.ts";
import { act, type JsonOption, type Reasoned, withDb } from "../operator.ts";
import { CommandError, EXIT, printJson, say } from "../../app/output.ts";
import { printTable } from "../table.ts";

export async function listCommand(options: JsonOption): Promise<void> {
  const hooks = await withDb(listWebhooks);
  if (options.json) return printJson(hooks);
  printTable(
    ["hook", "event", "signature", "per minute", "created by", "last delivery"],
    hooks.map((one) => [
      one.name,
      one.event_type,
      one.signature,
      one.rate_per_minute,
      one.created_by,
      one.delivered_at,
    ]),
    "no webhooks yet; create one: deno task hooks add NAME --event TYPE",
  );
}

export async function addCommand(
  name: string,
  options: Reasoned & { event: string; signature: string; rate: number },
): Promise<void> {
  const signature = SIGNATURES.find((one) => one === options.signature) as Signature | undefined;
  if (!signature) {
    throw new CommandError(
      `Cannot use --signature "${options.signature}": give ${SIGNATURES.join(" or ")}`,
      EXIT.usage,
    );
  }
  const hook = { name, event_type: options.event, signature, rate_per_minute: options.rate };
  const { secret } = await act(addHook, hook, options);
  if (options.json) return printJson({ ...hook, secret });
  say(`webhook "${name}" accepts deliveries at /api/v1/hooks/${name}; its secret, shown only once:\n`);
  say(secret);
}

export async function removeCommand(name: string, options: Reasoned): Promise<void> {
  await act(removeHook, { name }, options);
  if (options.json) return printJson({ name, removed: true });
  say(`webhook "${name}" is removed; further deliveries are refused`);
}
