/**
 * The dead man's guard: one small shell beside each worker, outside of its process, that knows the process group of
 * every body. It gets a line each second while the worker may run bodies. At the end of the stream (the worker died) or
 * after 3 s of silence (it is frozen, hangs, or may run nothing any more) it kills all the groups, grandchildren and
 * spinning bodies included. A group is made known to it before its process gets the first byte, and a process that
 * gets none ends by itself: so there is no moment in which a body is unguarded.
 *
 * One guard for all bodies, not one around each: a start costs no second process, and no orphaned shell is left for
 * init to reap, which in a container whose first process is the worker would be nobody.
 *
 * Not caught: a grandchild (only a body with `unsafe.run` has any) that moved into a session of its own.
 */
import { failpoint } from "../platform/failpoint.ts";
import { monotonicMs } from "../platform/timers.ts";
import { isFile } from "../platform/paths.ts";
import { signalGroup } from "./process_table.ts";
import { GUARD_MARK } from "./orphan_processes.ts";

export const BEAT_MS = 1_000;
/** The silence after which the guard strikes. The margin of each lease is longer by a second at least. */
export const WINDOW_SECONDS = 3;
/** A gap that is shorter than the window by so much, and the guard may have struck. */
const LAPSE_BEFORE_MS = 500;
/** Every line has this many bytes, so that a reader of blocks never sees half a number. */
const LINE_BYTES = 16;

const hearWithBash = (seconds: number) => `while read -t ${seconds} -r word; do note "$word"; done`;
const hearWithDd = (seconds: number) =>
  `while words=$(timeout --foreground -k 1 ${seconds} dd bs=4096 count=1 2>/dev/null) && [ -n "$words" ]; do ` +
  `for word in $words; do note "$word"; done; done`;

const scriptThatHears = (hear: string) => `
trap '' HUP INT TERM USR1 USR2
groups=' '
note() {
  case $1 in
    +*) groups="$groups\${1#+} " ;;
    -*) case $groups in *" \${1#-} "*) groups="\${groups%% \${1#-} *} \${groups#* \${1#-} }" ;; esac ;;
  esac
}
${hear}
for group in $groups; do kill -s KILL -- "-$group"; done`;

/** Why no body begins on a worker that stops, or whose lease is over. */
export class MayRunNothing extends Error {
  override name = "MayRunNothing";
}

interface Guard {
  process: Deno.ChildProcess;
  writer: WritableStreamDefaultWriter<Uint8Array>;
}

export class Watchdog {
  readonly #env: Record<string, string>;
  readonly #groups = new Set<number>();
  /** Proven empty since the last beat. */
  readonly #gone = new Set<number>();
  #guard: Guard | undefined;
  #closing = false;
  #beaten_ms = monotonicMs();
  #lapses = 0;

  readonly #bashes: readonly string[];
  readonly #mayRun: () => boolean;
  readonly #window_seconds: number;

  /** Without `mayRun`'s yes nothing is guarded, and there is no beat. */
  constructor(
    env: Record<string, string>,
    on: { mayRun?: () => boolean; bashes?: readonly string[]; window_seconds?: number } = {},
  ) {
    this.#window_seconds = on.window_seconds ?? WINDOW_SECONDS;
    this.#bashes = on.bashes ?? ["/bin/bash", "/usr/bin/bash"];
    this.#mayRun = on.mayRun ?? (() => true);
    this.#env = { PATH: env.PATH || "/usr/local/bin:/usr/bin:/bin" };
    if (env[GUARD_MARK]) this.#env[GUARD_MARK] = env[GUARD_MARK];
  }

  /**
   * Resolves once the guard is sure to learn of the group, whatever becomes of this process. @throws Error without a usable
   * shell, or when bodies may not run: this process may have stood still since it was last asked. From here on the guard
   * ends what that makes too old; before it has heard of the group it cannot, and others may have taken its work.
   */
  async add(group: number): Promise<void> {
    if (this.#groups.size === 0) this.#beaten_ms = monotonicMs();
    this.#groups.add(group);
    const again = this.#gone.delete(group); // the kernel has given the number again
    await failpoint("after-spawn-before-guard");
    for (;;) {
      const guard = this.#guard ??= this.#open();
      if (again) this.#say(guard, `-${group}`);
      const heard = await this.#say(guard, `+${group}`);
      if (!this.#mayRun()) throw new MayRunNothing("this worker may run nothing now");
      if (heard || this.#closing) return;
      if (this.#guard === guard) this.#guard = undefined;
    }
  }

  /** The group is proven empty. Said with the next beat: any word is a sign of life, and bodies that end must not keep others alive. */
  remove(group: number): void {
    this.#groups.delete(group);
    this.#gone.add(group);
  }

  beat(): void {
    if (!this.#mayRun()) return;
    this.#lapses = this.lapses;
    this.#beaten_ms = monotonicMs();
    for (const group of this.#gone) if (this.#guard) this.#say(this.#guard, `-${group}`);
    this.#gone.clear();
    if (this.#guard) this.#say(this.#guard, ".");
  }

  /** How often the beat was silent for so long that the guard may have killed. */
  get lapses(): number {
    const lapse_ms = this.#window_seconds * 1_000 - LAPSE_BEFORE_MS;
    return this.#lapses + (monotonicMs() - this.#beaten_ms > lapse_ms ? 1 : 0);
  }

  /** Ends the guard. What it still guards dies. */
  async close(): Promise<void> {
    this.#closing = true;
    const guard = this.#guard;
    if (!guard) return;
    await guard.writer.close().catch(() => {});
    await guard.process.status;
  }

  async #say(guard: Guard, word: string): Promise<boolean> {
    try {
      await guard.writer.write(new TextEncoder().encode(`${word.padEnd(LINE_BYTES - 1)}\n`));
      return true;
    } catch {
      return false;
    }
  }

  #open(): Guard {
    const { shell, script } = shellFor(this.#env.PATH as string, {
      bashes: this.#bashes,
      window_seconds: this.#window_seconds,
    });
    const process = new Deno.Command(shell, {
      args: ["-c", script],
      clearEnv: true,
      env: this.#env,
      stdin: "piped",
      stdout: "null",
      stderr: "null",
      detached: true, // a group of its own: neither Ctrl-C nor the kill of a body reaches it
    }).spawn();
    const guard: Guard = { process, writer: process.stdin.getWriter() };
    process.status.then(() => this.#replace(guard));
    return guard;
  }

  /** A guard that ended has either killed all it knew, or was itself killed: then another takes over at once. */
  #replace(guard: Guard): void {
    guard.writer.close().catch(() => {});
    if (this.#guard === guard) this.#guard = undefined;
    if (this.#closing || this.#groups.size === 0) return;
    try {
      const next = this.#guard ??= this.#open();
      for (const group of this.#groups) this.#say(next, `+${group}`);
    } catch {
      for (const group of this.#groups) signalGroup(group, "SIGKILL"); // nothing may run unguarded
    }
  }
}

function shellFor(
  path: string,
  { bashes, window_seconds }: { bashes: readonly string[]; window_seconds: number },
): { shell: string; script: string } {
  const find = (name: string) => path.split(":").map((folder) => `${folder}/${name}`).find(isFile);
  const bash = bashes.find(isFile) ?? find("bash");
  if (bash) return { shell: bash, script: scriptThatHears(hearWithBash(window_seconds)) };
  const missing = ["sh", "timeout", "dd"].filter((name) => !find(name));
  if (missing.length === 0) return { shell: find("sh") as string, script: scriptThatHears(hearWithDd(window_seconds)) };
  throw new Error(
    `Cannot guard bodies against the death of their worker: neither bash nor ${
      missing.join(", ")
    } is in PATH; install bash`,
  );
}
