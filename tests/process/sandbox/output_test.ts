/** What a body says, within limits, whatever it does. */
import assert from "node:assert/strict";
import { HEAD_BYTES, LAST_LINES, type LogLine, Output, TAIL_BYTES } from "../../../src/sandbox/output.ts";
import { type Heard, orderFor, ran, withSandbox } from "../../support/bodies.ts";
import { english } from "../../../src/locale/english.ts";

function bytesOf(heard: Heard): number {
  return heard.lines.reduce((sum, line) => sum + line.message.length + 1, 0);
}

Deno.test("a body that floods is ended with OutputLimit, and little of it is kept", () =>
  withSandbox(async (sandbox) => {
    const heard = await ran(sandbox, orderFor("prints", "100 MB"));
    assert(heard.outcome.kind === "FAILED", JSON.stringify(heard.outcome));
    assert.equal(heard.outcome.error_name, "OutputLimit");
    assert.match(english(heard.outcome.error_summary), /more than 64 MiB of output/);
    assert(bytesOf(heard) < HEAD_BYTES + TAIL_BYTES + 1_000, `${bytesOf(heard)} bytes were kept`);
  }));

Deno.test("short lines of a log without a pause are a flood as well, also after much was said", () => {
  for (const before of [0, 2 * HEAD_BYTES]) {
    let floods = 0;
    const output = new Output({ onLog() {}, onFlood: () => void floods++ });
    for (let said = 0; said < before; said += 1_000) output.log("info", "x".repeat(1_000));
    for (let line = 0; line < 900_000; line++) output.log("info", "again");
    assert.equal(floods, 0, "they are not 64 MiB");
    for (let line = 0; line < 900_000; line++) output.log("info", "again");
    assert.equal(floods, 1);
  }
});

Deno.test("of a long output the head and the tail are kept, with a mark where it was cut", () =>
  withSandbox(async (sandbox) => {
    const heard = await ran(sandbox, orderFor("prints", "3 MB"));
    assert.deepEqual(heard.outcome, { kind: "SUCCEEDED", result: "printed", exit_code: 0 });
    const numbers = heard.said("stdout").map((line) => Number(line.split(" ")[0]));
    assert.equal(numbers[0], 0);
    assert.equal(numbers.at(-1), 2_999);
    assert(numbers.length > 1_000 && numbers.length < 1_200, `${numbers.length} lines were kept`);
    const [cut = "", left_out = ""] = heard.said("system");
    assert.match(cut, /^output cut: more than 1048576 bytes/);
    assert.match(left_out, /^\d+ bytes of output are left out here$/);
    assert(bytesOf(heard) <= HEAD_BYTES + TAIL_BYTES + 500);
  }));

Deno.test("blank lines after a long output take its worker no longer than others", () => {
  const lines: LogLine[] = [];
  const output = new Output({ onLog: (said) => void lines.push(...said), onFlood() {} });
  const text = (text: string) => output.text("stdout", new TextEncoder().encode(text));
  for (let said = 0; said <= HEAD_BYTES; said += 1_000) text(`${"x".repeat(999)}\n`);
  for (let block = 0; block < 30; block++) text("\n".repeat(TAIL_BYTES)); // 27 s for the second of them, when each moved the others
  text("the end\n");
  output.end();
  assert.equal(lines.at(-1)?.message, "the end");
  assert.equal(lines.filter(({ message }) => message === "").length, TAIL_BYTES - "the end\n".length);
});

Deno.test("of too many lines at once the first and the last are kept, with a mark that counts those between", () =>
  withSandbox(async (sandbox) => {
    const heard = await ran(sandbox, orderFor("prints", "many lines"));
    const printed = heard.said("stdout").map(Number);
    const marks = heard.said("system").map((mark) => Number(/^(\d+) lines are left out here/.exec(mark)?.[1]));
    assert(printed.length >= 5_000 && printed.length < 20_000, `${printed.length} lines were kept`);
    assert.equal(printed.length + marks.reduce((sum, count) => sum + count, 0), 20_000);
    const last = Array.from({ length: LAST_LINES }, (_, place) => 20_000 - LAST_LINES + place);
    assert.deepEqual(printed.slice(-LAST_LINES), last);
    assert.deepEqual(printed, printed.toSorted((a, b) => a - b));
  }));

Deno.test("few lines more than are passed at once are kept all, and without a mark", () => {
  const lines: LogLine[] = [];
  const output = new Output({ onLog: (said) => void lines.push(...said), onFlood() {} });
  const said = 5_000 + LAST_LINES;
  for (let line = 0; line < said; line++) output.log("info", String(line));
  output.end();
  assert.deepEqual(lines.map(({ message }) => message), Array.from({ length: said }, (_, line) => String(line)));
});

Deno.test("the last lines stay the last where an output is both too fast and too long", () => {
  const lines: LogLine[] = [];
  const output = new Output({ onLog: (said) => void lines.push(...said), onFlood() {} });
  for (let said = 0; said < 1_000; said++) output.log("info", "x".repeat(1_000));
  for (let said = 0; said < 20_000; said++) output.log("info", `line ${said} ${"y".repeat(150)}`);
  output.log("error", "the cause");
  output.end();
  assert.equal(lines.at(-1)?.message, "the cause");
  const bytes = lines.reduce((sum, line) => sum + line.message.length + 1, 0);
  assert(bytes <= HEAD_BYTES + TAIL_BYTES + 1_000, `${bytes} bytes were kept`);
});

Deno.test("lines are short, clean text, and what only looks like a frame is text", () =>
  withSandbox(async (sandbox) => {
    const heard = await ran(sandbox, orderFor("prints", "strange"));
    assert.equal(heard.outcome.kind, "SUCCEEDED");
    const [red, broken, ...rest] = heard.said("stdout");
    assert.equal(red, "red bell\ttab");
    assert.equal(broken, "f\uFFFDo");
    assert.equal(rest.pop(), "0123456789abcdef.{}");
    assert.equal(rest.join(""), "é".repeat(10_000));
    const encoder = new TextEncoder();
    assert(heard.lines.every((line) => encoder.encode(line.message).length <= 8 * 1024));
    assert.deepEqual(heard.said("stderr"), ["no newline at the end"]);
    const [bold] = heard.lines.filter((line) => line.level === "info");
    assert.equal(bold?.message, "bold");
    assert.match(JSON.stringify(bold?.fields), /"dropped":"fields of \d+ bytes/);
  }));

Deno.test("a line without an end is cut while it grows, so that it fills no memory", async () => {
  const lines: LogLine[] = [];
  const output = new Output({ onLog: (said) => void lines.push(...said), onFlood() {} });
  output.text("stdout", new TextEncoder().encode("x".repeat(20_000)));
  await Promise.resolve();
  assert.deepEqual(lines.map(({ message }) => message.length), Array(lines.length).fill(lines[0]?.message.length));
  const bytes = lines.reduce((sum, { message }) => sum + message.length, 0);
  assert(bytes >= 10_000, `${bytes} bytes of it were handed over`);
  output.end();
  assert.equal(lines.reduce((sum, { message }) => sum + message.length, 0), 20_000);
});

Deno.test("fields that are too large for a line of the log are left out, with how large they were", () => {
  const lines: LogLine[] = [];
  const output = new Output({ onLog: (said) => void lines.push(...said), onFlood() {} });
  output.log("info", "small", { a: 1 });
  output.log("info", "large", { text: "x".repeat(9_000) });
  output.end();
  assert.deepEqual(lines.map(({ fields }) => fields), [
    { a: 1 },
    { dropped: "fields of 9011 bytes, at most 8192 are kept" },
  ]);
});
