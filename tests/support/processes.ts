/** Which processes are there, as the kernel tells it: for tests that demand that none is left. */
import { rest } from "../../src/platform/timers.ts";

export interface FoundProcess {
  pid: number;
  command: string;
}

/** Living processes whose command line, environment or folder holds `marker`; a folder's unique name makes a good one. */
export function processesWith(marker: string): FoundProcess[] {
  const found: FoundProcess[] = [];
  for (const entry of Deno.readDirSync("/proc")) {
    const pid = Number(entry.name);
    if (!Number.isInteger(pid) || pid === Deno.pid) continue;
    const command = read(() => Deno.readTextFileSync(`/proc/${pid}/cmdline`)).replaceAll("\0", " ").trim();
    const environment = read(() => Deno.readTextFileSync(`/proc/${pid}/environ`));
    const folder = read(() => Deno.readLinkSync(`/proc/${pid}/cwd`));
    if ([command, environment, folder].some((text) => text.includes(marker))) found.push({ pid, command });
  }
  return found;
}

/** Waits until no such process is left; throws, and names and kills them, when some are after `within_ms`. */
export async function noneLeft(marker: string, within_ms: number): Promise<void> {
  const late = AbortSignal.timeout(within_ms);
  for (;;) {
    const left = processesWith(marker);
    if (left.length === 0) return;
    if (late.aborted) {
      for (const { pid } of left) read(() => (Deno.kill(pid, "SIGKILL"), ""));
      throw new Error(
        `Processes left behind after ${within_ms} ms:\n${
          left.map(({ pid, command }) => `  ${pid} ${command}`).join("\n")
        }`,
      );
    }
    await rest(100); // a look is at every process there is
  }
}

/** A process may end while it is looked at, and a zombie has nothing to show. */
function read(look: () => string): string {
  try {
    return look();
  } catch {
    return "";
  }
}
