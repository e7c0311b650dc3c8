/** Frames in a stream of text: found when whole, text when not, and nothing that a body writes is more than either. */
import assert from "node:assert/strict";
import { FrameReader, type FromBody, joined, readFrame, records } from "../../src/sandbox/frames.ts";
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
