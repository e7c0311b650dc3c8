/**
 * What a drill does to others is undone also when the drill is killed: a small shell holds a pipe from us, and does its
 * part when the pipe closes, whether we close it or die. It has a session of its own, so that a Ctrl-C reaches only us.
 */
import { signalProcess } from "../../sandbox/process_table.ts";

export class Undo {
  readonly #shell: Deno.ChildProcess;
  #done: Promise<void> | undefined;

  private constructor(script: string, args: string[]) {
    this.#shell = new Deno.Command("/bin/sh", {
      args: ["-c", `while read -r _; do :; done; ${script}`, "dandori-drill", ...args],
      stdin: "piped",
      stdout: "null",
      stderr: "null",
      detached: true,
    }).spawn();
  }

  /** Stops a process as if its machine stood still. It goes on when this is undone. */
  static freeze(pid: number): Undo {
    const undo = new Undo('kill -s CONT "$1"', [String(pid)]);
    signalProcess(pid, "SIGSTOP");
    return undo;
  }

  /** Removes folders, with all in them, when this is undone. */
  static removal(...folders: string[]): Undo {
    return new Undo('rm -rf -- "$@"', folders);
  }

  /** Undoes it. Again, it does nothing. */
  now(): Promise<void> {
    this.#done ??= this.#shell.stdin.close().catch(() => {}).then(() => this.#shell.status).then(() => undefined);
    return this.#done;
  }
}
