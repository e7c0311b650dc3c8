/** Where job files come from: this machine, and the git commit of the folder, where it has one. */
import { hostname } from "node:os";
import type { Checkout } from "../definitions/syncs.ts";

/** Git may be missing, or the repository large: a sync does not wait for it any longer. */
const GIT_MS = 3_000;

export async function checkoutOf(folder: string): Promise<Checkout> {
  const [commit, changes] = await Promise.all([
    git(folder, ["log", "-1", "--format=%H %ct"]),
    git(folder, ["status", "--porcelain"]),
  ]);
  const [, git_commit = null, seconds] = /^([0-9a-f]{40,64}) (\d{1,11})\n$/.exec(commit ?? "") ?? [];
  return {
    machine: hostname(),
    git_commit,
    git_dirty: git_commit === null || changes === undefined ? null : changes !== "",
    committed_at: seconds === undefined ? null : new Date(Number(seconds) * 1_000),
  };
}

/** Undefined: no git, no repository, no answer in time. */
async function git(folder: string, args: string[]): Promise<string | undefined> {
  try {
    const { success, stdout } = await new Deno.Command("git", {
      args: ["-C", folder, ...args],
      env: { GIT_OPTIONAL_LOCKS: "0" }, // or it would keep the index from whoever works there
      stdin: "null",
      stderr: "null",
      signal: AbortSignal.timeout(GIT_MS),
    }).output();
    return success ? new TextDecoder().decode(stdout) : undefined;
  } catch {
    return undefined;
  }
}
