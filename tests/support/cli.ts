/**
 * The command line as a user gives it, in an environment of the test's own. To start Deno for each command takes longer
 * than almost any of them, so those of one test file are run one after another in a process of its own, by cli_host.ts;
 * `cliAlone` starts main.ts, for tests of the program itself.
 */
import { fromFileUrl } from "../../src/platform/paths.ts";
import { PROJECT_DIR } from "../../src/platform/config.ts";

export interface Said {
  code: number;
  out: string;
  err: string;
}

export type Cli = (...args: string[]) => Promise<Said>;

/** What the host is told, a line each. It says `mark` on both streams when the command has ended, with the exit code. */
export interface Order {
  args: string[];
  env: Record<string, string>;
  mark: string;
}

/** Gives a command with these variables, beside those of the test. */
export function cliWith(env: Record<string, string>): Cli {
  return (...args) => host.run({ args, env, mark: `<${crypto.randomUUID()}>` });
}

/** The same, each command in a process of its own. */
export function cliAlone(env: Record<string, string>): Cli {
  return async (...args) => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "main.ts", ...args],
      cwd: PROJECT_DIR,
      env: { ...env, NO_COLOR: "1" },
    }).output();
    return { code, out: new TextDecoder().decode(stdout), err: ofProgram(new TextDecoder().decode(stderr)) };
  };
}

class Host {
  readonly #child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", fromFileUrl(new URL("./cli_host.ts", import.meta.url))],
    cwd: PROJECT_DIR,
    env: { NO_COLOR: "1" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  readonly #orders = this.#child.stdin.getWriter();
  readonly #streams = [this.#child.stdout, this.#child.stderr].map((stream) => stream.getReader()) as [Reader, Reader];
  #last: Promise<unknown> = Promise.resolve();

  constructor() {
    addEventListener("unload", () => {
      try {
        this.#child.kill("SIGKILL");
      } catch {
        // it is gone
      }
    });
  }

  run(order: Order): Promise<Said> {
    const said = this.#last.then(() => this.#runNow(order));
    this.#last = said.catch(() => {});
    return said;
  }

  async #runNow(order: Order): Promise<Said> {
    await this.#orders.write(new TextEncoder().encode(JSON.stringify(order) + "\n"));
    const [out, err] = await Promise.all(this.#streams.map((stream) => readUntil(stream, order)));
    return { code: Number(out?.after), out: out?.text ?? "", err: ofProgram(err?.text ?? "") };
  }
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** Nothing is read beyond the mark, since a test must leave nothing under way. */
async function readUntil(stream: Reader, { mark, args }: Order): Promise<{ text: string; after: string }> {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const [before, after] = text.split(mark, 2);
    if (after?.endsWith("\n")) return { text: before as string, after: after.trim() };
    const { value, done } = await stream.read();
    if (done) throw new Error(`The process ended in the middle of "${args.join(" ")}": ${text}`);
    text += decoder.decode(value, { stream: true });
  }
}

// Started while the file loads, so that no test is charged for it.
const host = new Host();

/** Without what Deno itself says where several of its processes begin in one checkout at once. */
function ofProgram(text: string): string {
  return text.replace(/^Blocking waiting for file lock on .*\n/gm, "");
}
