/** `dev`: everything on this machine. */
import { runDev } from "../dev/dev.ts";
import type { Signals } from "./output.ts";

export async function devCommand(options: { workers: number }, { stop, hurry }: Signals): Promise<void> {
  await runDev({ workers: options.workers, stop, hurry });
}
