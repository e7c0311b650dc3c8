/** Job files as bodies for the tests of the sandbox, and what is needed to run one and to see all that came of it. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../src/platform/config.ts";
import { rest } from "../../src/platform/timers.ts";
import { fromFileUrl } from "../../src/platform/paths.ts";
import type { Body, BodyOrder, LogLine, Outcome, ProcessPoolOptions } from "../../src/sandbox/process_pool.ts";
import { ProcessPool } from "../../src/sandbox/process_pool.ts";
import { membersOf } from "../../src/sandbox/process_table.ts";
import { waitFor } from "./waiting.ts";

const FILES = {
  add: new URL("./bodies/add.ts", import.meta.url),
  asks: new URL("./bodies/asks.ts", import.meta.url),
  checks: new URL("./bodies/checks.ts", import.meta.url),
  context: new URL("./bodies/context.ts", import.meta.url),
  counts: new URL("./bodies/counts.ts", import.meta.url),
  ends: new URL("./bodies/ends.ts", import.meta.url),
  grandchild: new URL("./bodies/grandchild.ts", import.meta.url),
  hangs: new URL("./bodies/hangs.ts", import.meta.url),
  hoards: new URL("./bodies/hoards.ts", import.meta.url),
  leaves: new URL("./bodies/leaves.ts", import.meta.url),
  prints: new URL("./bodies/prints.ts", import.meta.url),
  replaces: new URL("./bodies/replaces.ts", import.meta.url),
  reports: new URL("./bodies/reports.ts", import.meta.url),
  returns: new URL("./bodies/returns.ts", import.meta.url),
  throws: new URL("./bodies/throws.ts", import.meta.url),
  waits: new URL("./bodies/waits.ts", import.meta.url),
};

export type BodyName = keyof typeof FILES;

export function bodyFile(name: BodyName): string {
  return fromFileUrl(FILES[name]);
}

export function orderFor(name: BodyName, args: unknown, more: Partial<BodyOrder> = {}): BodyOrder {
  return {
    job_run_id: 7,
    attempt: 2,
    fence: 41,
    job_name: name,
    job_file: bodyFile(name),
    digest: "digest-1",
    args,
    scheduled_for: "2026-01-02T03:04:05.000Z",
    permissions: {},
    timeout_ms: 30_000,
    kill_grace_ms: 5_000,
    memory_mb: 128,
    isolation_reuse: 0,
    ...more,
  };
}

/** A body that runs, with what it says. */
export class Heard {
  readonly lines: LogLine[] = [];
  readonly progress: [number, string | undefined][] = [];
  readonly body: Body;

  constructor(sandbox: ProcessPool, order: BodyOrder) {
    this.body = sandbox.start(order, {
      onLog: (lines) => void this.lines.push(...lines),
      onProgress: (fraction, message) => void this.progress.push([fraction, message]),
      onSteps: () => {},
    });
  }

  /** The messages of one level. */
  said(level: LogLine["level"]): string[] {
    return this.lines.filter((line) => line.level === level).map((line) => line.message);
  }

  /** Resolves once it has said this. */
  async saying(message: string): Promise<LogLine> {
    return await waitFor(`the body to say "${message}"`, () => {
      return Promise.resolve(this.lines.find((line) => line.message === message));
    });
  }
}

/** Runs a body to its end. */
export async function ran(sandbox: ProcessPool, order: BodyOrder): Promise<Heard & { outcome: Outcome }> {
  const heard = new Heard(sandbox, order);
  return Object.assign(heard, { outcome: await heard.body.outcome });
}

/** Gives a sandbox of its own to `use`, and shows at the end that nothing of it is left. */
export async function withSandbox(
  use: (sandbox: ProcessPool, state_dir: string) => Promise<void>,
  more: Partial<ProcessPoolOptions> = {},
): Promise<void> {
  const state_dir = await Deno.makeTempDir({ prefix: "dandori-sandbox-" });
  const env = { ...plumbing(), GREETING: "good morning", CANARY_SECRET: "canary-7d1f" };
  const sandbox = new ProcessPool({ project_dir: PROJECT_DIR, state_dir, spares: 0, env, ...more });
  try {
    await use(sandbox, state_dir);
    await sandbox.close();
    assert.deepEqual(filesBelow(state_dir), [], "no temp folder is left");
  } finally {
    await sandbox.close();
    await Deno.remove(state_dir, { recursive: true });
  }
}

function filesBelow(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap(({ name }) => [...Deno.readDirSync(`${folder}/${name}`)])
    .map(({ name }) => name);
}

function plumbing(): Record<string, string> {
  const { PATH = "/usr/bin:/bin", HOME = "/", DENO_DIR } = Deno.env.toObject();
  return { PATH, HOME, ...(DENO_DIR ? { DENO_DIR } : {}) };
}

/** Resolves when nothing is alive in the process group. */
export async function groupGone(group: number): Promise<void> {
  await waitFor(`process group ${group} to be empty`, async () => {
    await rest(5);
    return membersOf(group).length === 0 ? true : undefined;
  });
}
