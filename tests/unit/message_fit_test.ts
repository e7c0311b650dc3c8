/** What a message may be: known to its job, let in by it, and of its schema. */
import assert from "node:assert/strict";
import { z } from "zod";
import type { Json } from "../../src/job.ts";
import { EnqueueError } from "../../src/actions/args.ts";
import { checkMessage } from "../../src/actions/messages.ts";
import { UnknownKeys } from "../../src/sync/unknown_keys.ts";

const schema = z.toJSONSchema(z.object({ ok: z.boolean(), at: z.array(z.object({ n: z.number() })).optional() }), {
  io: "input",
}) as Json;
const WIPE = { name: "wipe", messages: { approval: { schema }, ping: { schema: null, from: "emit" as const } } };

function refusal(
  name: string,
  payload: unknown,
  emit = false,
  definition: Parameters<typeof checkMessage>[0] = WIPE,
): EnqueueError {
  try {
    checkMessage(definition, name, payload, { emit });
  } catch (error) {
    assert(error instanceof EnqueueError, String(error));
    return error;
  }
  throw new Error(`${name} was let in`);
}

Deno.test("a message of a known name with a payload that fits is let in", () => {
  checkMessage(WIPE, "approval", { ok: true });
  checkMessage(WIPE, "ping", { anything: [1] });
  checkMessage(WIPE, "ping", null, { emit: true });
});

Deno.test("an unknown name is refused with those that there are, and the one that was most likely meant", () => {
  const { message, why } = refusal("aproval", { ok: true });
  assert.equal(
    message,
    'Cannot send "aproval" to a run of "wipe": it takes no such message; did you mean "approval"? it takes approval, ping',
  );
  assert.equal(why, "not_found");
  assert.match(
    refusal("x", 1, false, { name: "greet", messages: {} }).message,
    /it takes no messages; its file can name some/,
  );
  for (const name of ["constructor", "__proto__"]) assert.match(refusal(name, {}).message, /it takes no such message/);
});

Deno.test("a payload that does not fit is refused with the path of each thing that is wrong, before what cannot be stored at all", () => {
  const { message, issues, says } = refusal("approval", { ok: "yes", at: [{ n: 1 }, {}] });
  assert.match(
    message,
    /^Cannot send "approval" to a run of "wipe": the values of its payload do not fit: ok: .*; at\.1\.n: /,
  );
  assert.deepEqual(issues.map(({ path }) => path), ["ok", "at.1.n"]);
  assert.equal(says.code, "message_unfit");
  assert.match(refusal("ping", new Map()).message, /Cannot store message "ping": payload is a Map/);
  assert.match(refusal("ping", "\0").message, /which Postgres refuses/);
});

Deno.test("a token that may only emit sends what the job's file lets it send", () => {
  const { message } = refusal("approval", { ok: true }, true);
  assert.match(message, /a token of scope emit may not; .* messages: \{ "approval": \{ schema, from: "emit" \} \}/);
});

Deno.test("a key that the schema does not name is taken down, not refused", () => {
  const unknown = new UnknownKeys();
  checkMessage(WIPE, "approval", { ok: true, att: [] }, { unknown });
  assert.deepEqual(unknown.texts(), ['unknown key "att": did you mean "at"?']);
});
