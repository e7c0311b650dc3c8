/** A real process of a body, whose worker is the test: it writes each line, and sees each frame. */
import { PROJECT_DIR } from "../../src/platform/config.ts";
import { type FromBody, REHEARSAL, type ToBody } from "../../src/sandbox/frames.ts";
import { FrameReader } from "../../src/sandbox/frames/frame_reader.ts";
import { waitFor } from "./waiting.ts";

const NONCE = "0123456789abcdef";

export class SpokenBody {
  readonly frames: FromBody[] = [];
  text = "";
  readonly ended: Promise<Deno.CommandStatus>;
  #over = false;
  readonly #process: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;

  constructor(file: URL) {
    const host = new URL("../../src/sandbox/child/host.ts", import.meta.url);
    const entry = `import { host } from "${host}"; host(() => import("${file}"));`;
    this.#process = new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--no-prompt", "--no-lock", "--no-check", "--node-modules-dir=manual", "--cached-only"],
        ...[`--config=${PROJECT_DIR}/deno.json`, `data:application/typescript,${encodeURIComponent(entry)}`],
      ],
      ...{ cwd: PROJECT_DIR, env: { NO_COLOR: "1" }, stdin: "piped", stdout: "piped", stderr: "null" },
    }).spawn();
    this.#writer = this.#process.stdin.getWriter();
    this.say({ kind: "hello", nonce: NONCE, granted: ["import"] });
    this.ended = Promise.all([this.#process.status, this.#listen()]).then(([status]) => {
      this.#over = true;
      return status;
    });
  }

  say(words: ToBody): void {
    this.#writer.write(new TextEncoder().encode(`${JSON.stringify(words)}\n`)).catch(() => {});
  }

  order(args: unknown, more: Partial<Extract<ToBody, { kind: "order" }>> = {}): void {
    const run = { job_run_id: 812, attempt: 1, fence: 7, job_name: "flows", scheduled_for: "2026-01-01T00:00:00Z" };
    this.say({ ...REHEARSAL, ...run, args, messages: ["go"], ...more });
  }

  signal(signal: Deno.Signal): void {
    this.#process.kill(signal);
  }

  /** The next frame of this kind that was not heard yet. */
  async next<K extends FromBody["kind"]>(kind: K): Promise<Extract<FromBody, { kind: K }>> {
    return await waitFor(`the body to say ${kind}`, () => {
      const place = this.frames.findIndex((frame) => frame.kind === kind);
      if (place < 0 && this.#over) {
        throw new Error(`The body has ended without ${kind}: ${JSON.stringify(this.frames)}`);
      }
      return Promise.resolve(place < 0 ? undefined : this.frames.splice(place, 1)[0] as Extract<FromBody, { kind: K }>);
    });
  }

  /** The next row, and that it is committed. */
  async nextStep(): Promise<string> {
    const { n, key, state, seq } = await this.next("step");
    this.say({ kind: "committed", upto: n, ended_unix_ms: 1_800_000_000_000 + n });
    return [key, state, seq].filter(Boolean).join(" ");
  }

  async close(): Promise<void> {
    try {
      this.#process.kill("SIGKILL");
    } catch {
      // it has ended
    }
    await this.ended;
    await this.#writer.close().catch(() => {});
  }

  async #listen(): Promise<void> {
    const reader = new FrameReader(new TextEncoder().encode(NONCE), {
      onText: (bytes) => void (this.text += new TextDecoder().decode(bytes)),
      onFrame: (frame) => void this.frames.push(frame),
    });
    for await (const chunk of this.#process.stdout) reader.feed(chunk);
    reader.end();
  }
}
