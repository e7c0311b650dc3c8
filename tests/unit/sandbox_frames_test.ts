/** Frames in a stream of text: found when whole, text when not, and nothing that a body writes is more than either. */
import assert from "node:assert/strict";
import { FrameReader, readFrame } from "../../src/sandbox/frames/frame_reader.ts";
import { type FromBody, joined, records } from "../../src/sandbox/frames.ts";
import { whyNotJson } from "../../src/sandbox/json_values.ts";

const NONCE = new TextEncoder().encode("0123456789abcdef");
const bytes = (text: string) => new TextEncoder().encode(text);

function readAll(chunks: Uint8Array[]): { text: string; frames: FromBody[] } {
  const said = { text: "", frames: [] as FromBody[] };
  const decoder = new TextDecoder();
  const reader = new FrameReader(NONCE, {
    onText: (part) => void (said.text += decoder.decode(part, { stream: true })),
    onFrame: (frame) => void said.frames.push(frame),
  });
  for (const chunk of chunks) reader.feed(chunk);
  reader.end();
  return said;
}

const LARGE: FromBody = { kind: "result", result: { text: "é\x1e\n".repeat(20_000) } };
const SMALL: FromBody = { kind: "log", level: "info", message: "hello" };

Deno.test("frames are found between text, however the stream is cut", () => {
  const stream = joined([
    bytes("before "),
    ...records(SMALL, NONCE),
    bytes("mid\x1edle"),
    ...records(LARGE, NONCE),
    bytes(" after"),
  ]);
  for (const size of [1, 7, 511, 512, 513, 65_536]) {
    const chunks = Array.from(
      { length: Math.ceil(stream.length / size) },
      (_, n) => stream.slice(n * size, (n + 1) * size),
    );
    assert.deepEqual(readAll(chunks), { text: "before mid\x1edle after", frames: [SMALL, LARGE] }, `cut by ${size}`);
  }
});

Deno.test("records are small enough for one write each, and text between them is no harm", () => {
  const pieces = [...records(LARGE, NONCE)];
  assert(pieces.length > 100 && pieces.every((piece) => piece.length <= 512));
  const woven = pieces.flatMap((piece) => [piece, bytes(".")]);
  assert.deepEqual(readAll(woven), { text: ".".repeat(pieces.length), frames: [LARGE] });
});

Deno.test("what only begins like a record is text", () => {
  const begun = "\x1e0123456789abcdef.never closed";
  assert.deepEqual(readAll([bytes(begun)]), { text: begun, frames: [] });
  const long = `\x1e0123456789abcdef.${"x".repeat(5_000)}\x1e`;
  assert.deepEqual(readAll([bytes(long)]), { text: long, frames: [] });
  const other_nonce = "\x1efedcba9876543210.{}\x1e";
  assert.deepEqual(readAll([bytes(other_nonce)]), { text: other_nonce, frames: [] });
});

Deno.test("a frame that is too large or malformed is dropped, and the next one is heard", () => {
  const huge = { kind: "log", level: "info", message: "x".repeat(3_000_000) } as const;
  const malformed = bytes("\x1e0123456789abcdef.{not json\x1e");
  const said = readAll([...records(huge, NONCE), malformed, ...records(SMALL, NONCE)]);
  assert.deepEqual(said, { text: "", frames: [SMALL] });
});

Deno.test("only frames with every field in order count", () => {
  const error = { phase: "run", name: "E", message: "m", stack: "", causes: [], retry: "policy" };
  assert.deepEqual(readFrame(JSON.stringify({ kind: "error", error })), { kind: "error", error });
  const wrong = [
    null,
    7,
    { kind: "boast" },
    { kind: "result" },
    { kind: "log", level: "shout", message: "m" },
    { kind: "log", level: "info" },
    { kind: "progress", fraction: "half" },
    { kind: "progress", fraction: 1.5 },
    { kind: "progress", fraction: -0.1 },
    { kind: "progress", fraction: null },
    { kind: "exiting", code: 1.5 },
    { kind: "error", error: null },
    { kind: "error", error: { ...error, retry: { after_seconds: -1 } } },
    { kind: "error", error: { ...error, causes: [1] } },
  ];
  for (const frame of wrong) assert.equal(readFrame(JSON.stringify(frame)), undefined, JSON.stringify(frame));
});

const STEP = { kind: "step", n: 1, key: "step:charge", request: "step", state: "DONE", seq: 1, tries: 1 };
const WAIT = { ...STEP, key: "message:ok", request: "message", state: "WAITING", seq: undefined, waits_for: "ok" };
const CALL = { ...STEP, key: "call:render", request: "call", state: "WAITING", seq: undefined };

Deno.test("the frames of steps hold what the table can, within its limits", () => {
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  const right = [
    STEP,
    { ...STEP, result: { total: 3 }, took_ms: 1.5, has_undo: true },
    { ...STEP, state: "CANCELED", seq: undefined },
    { ...STEP, state: "TRYING", seq: undefined, error_name: "E", error_summary: "s", until_in_ms: 0 },
    {
      ...WAIT,
      until_unix_ms: 1_800_000_000_000,
      prompt: { ask: "Wipe?", show: { device: 4 }, who: ["role:operator"] },
    },
    { ...CALL, child: { job: "render", args: { page: 1 } } },
    { ...STEP, key: "start:notify", request: "start", child: { job: "notify", args: null, options: { priority: 3 } } },
    { kind: "ask", n: 1, what: "callback", name: "ok", expires_unix_ms: 1_800_000_000_000 },
    { kind: "ask", n: 2, what: "items", key: "bulk:render", at: 0, items: [1, { a: 2 }] },
    { kind: "waiting", soonest_in_ms: null, handles: false },
    { kind: "replaying", on: true },
  ];
  for (const frame of right) {
    assert.deepEqual(readFrame(JSON.stringify({ ...frame, more: 1 })), JSON.parse(JSON.stringify(frame)));
  }
  const wrong = [
    ...["n", "key", "request", "state", "tries"].map((name) => ({ ...STEP, [name]: undefined })),
    { ...STEP, n: 0 },
    { ...STEP, n: 1.5 },
    { ...STEP, key: "é".repeat(151) },
    { ...STEP, request: "signal" },
    { ...STEP, state: "RUNNING" },
    { ...STEP, seq: undefined },
    { ...STEP, seq: 2 ** 31 },
    { ...STEP, state: "BEGUN" },
    { ...STEP, tries: 0 },
    { ...STEP, took_ms: -1 },
    { ...STEP, message_id: "7" },
    { ...STEP, result: "x".repeat(1024 * 1024) },
    { ...STEP, result: "a\0b" },
    { ...STEP, result: { "\ud800": 1 } },
    { ...STEP, error_summary: "x".repeat(8_001) },
    { ...WAIT, waits_for: "No Name" },
    { ...WAIT, waits_for: undefined },
    { ...WAIT, until_in_ms: Infinity },
    { ...WAIT, prompt: { ask: 7 } },
    { ...WAIT, prompt: { show: "x".repeat(70_000) } },
    CALL,
    { ...CALL, child: { args: 1 } },
    { ...STEP, child: { job: "render" } },
    { kind: "ask", n: 1, what: "password" },
    { kind: "ask", n: 1, what: "callback", name: "../x", expires_unix_ms: 1 },
    { kind: "ask", n: 1, what: "items", key: "bulk:x", at: 0, items: {} },
    { kind: "waiting", soonest_in_ms: "soon", handles: false },
    { kind: "replaying", on: "yes" },
  ];
  const texts = wrong.map((frame) => JSON.stringify(frame));
  for (const text of [...texts, JSON.stringify({ ...STEP, result: 0 }).replace(":0}", `:${deep}}`)]) {
    assert.equal(readFrame(text), undefined, text.slice(0, 200));
  }
});

Deno.test("what JSON cannot hold is named with its place, and reading it can do no harm", () => {
  assert.equal(whyNotJson({ a: [1, "x", null, { b: undefined }], at: new Date(0) }, "v"), undefined);
  assert.match(whyNotJson(new Error("x"), "v") ?? "", /^v is a Error; give its message/);
  assert.match(
    whyNotJson({
      get a(): never {
        throw new Error("mine");
      },
    }, "v") ?? "",
    /^v cannot be read: mine$/,
  );
  const deep: unknown[] = [];
  let inner = deep;
  for (let level = 0; level < 100_000; level++) inner.push(inner = []);
  assert.match(whyNotJson(deep, "v") ?? "", /nested deeper than 100 levels$/);
});
