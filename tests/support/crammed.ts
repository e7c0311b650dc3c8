/** A program of ours that may open few files, and connections that take all of them. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../src/platform/config.ts";
import { fromFileUrl } from "../../src/platform/paths.ts";

const MOST_FILES = 100;

interface Crammed {
  /** As the program printed it, first of all. */
  port: number;
  /** Resolves when what it has printed fits. */
  says(sign: RegExp): Promise<void>;
  /** Takes all the files that it may open, for the length of `act`. */
  cram(act: () => Promise<void>): Promise<void>;
}

export async function withCrammed(program: URL, act: (on: Crammed) => Promise<void>): Promise<void> {
  const child = new Deno.Command("/bin/sh", {
    args: [
      "-c",
      `ulimit -n ${MOST_FILES}; exec "$@"`,
      "sh",
      Deno.execPath(),
      "run",
      "-A",
      fromFileUrl(program),
    ],
    cwd: PROJECT_DIR,
    stdout: "piped",
  }).spawn();
  const stdout = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const says = async (sign: RegExp) => {
    while (!sign.test(text)) {
      const { done, value } = await stdout.read();
      assert(!done, `it ended, having said: ${text}`);
      text += value;
    }
  };
  try {
    await says(/^\d+\n/);
    const port = parseInt(text);
    await act({
      port,
      says,
      async cram(meanwhile) {
        const connections: Deno.Conn[] = [];
        const at = { hostname: "127.0.0.1", port };
        for (let n = 0; n < MOST_FILES + 20; n++) await Deno.connect(at).then((one) => connections.push(one), () => {});
        try {
          await meanwhile();
        } finally {
          for (const connection of connections) connection.close();
        }
      },
    });
  } finally {
    try {
      child.kill("SIGKILL");
    } catch {
      // it has ended already
    }
    await child.status;
    await stdout.cancel();
  }
}
