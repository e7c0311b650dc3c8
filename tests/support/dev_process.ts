/** `deno task dev` as a user starts it, with a state folder and a jobs folder of its own. */
import { PROJECT_DIR } from "../../src/platform/config.ts";
import { WORKER_ARGS } from "../../src/dev/worker_supervisor.ts";
import { Hearing } from "./hearing.ts";
import { noneLeft } from "./processes.ts";

/** Long for a process to end, short for one that hangs. */
const ENDS_WITHIN_MS = 30_000;

export interface Answer {
  code: number;
  stdout: string;
  stderr: string;
}

/** Gives `test` a folder for one dev after another. Whatever is still there of them at the end is an error. */
export async function withDevFolder(test: (folder: DevFolder) => Promise<void>): Promise<void> {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-dev-" });
  const folder = new DevFolder(dir);
  try {
    await test(folder);
  } finally {
    for (const dev of folder.started) dev.kill("SIGKILL");
    await noneLeft(dir, ENDS_WITHIN_MS);
    folder.remove();
  }
}

export class DevFolder {
  readonly dir: string;
  readonly state_dir: string;
  readonly jobs_dir: string;
  readonly started: DevProcess[] = [];

  constructor(dir: string) {
    this.dir = dir;
    Deno.chmodSync(dir, 0o755); // so that root's Postgres, which is another user, keeps its data in here as well
    this.state_dir = `${dir}/state`;
    this.jobs_dir = `${dir}/jobs`;
    Deno.mkdirSync(this.jobs_dir);
  }

  writeJob(name: string, source: string): void {
    Deno.writeTextFileSync(`${this.jobs_dir}/${name}`, source);
  }

  /** Starts dev, with two workers; `task`: below `deno task`, as the README says. */
  start(options: { task?: boolean; workers?: number; env?: Record<string, string> } = {}): DevProcess {
    const args = options.task ? ["task", "dev"] : mainArgs("dev");
    const child = this.#command([...args, "--workers", String(options.workers ?? 2)], options.env).spawn();
    const dev = new DevProcess(child);
    this.started.push(dev);
    return dev;
  }

  /** Begins another command of this checkout. */
  begin(...args: string[]): Deno.ChildProcess {
    return this.#command(mainArgs(...args)).spawn();
  }

  /** Runs another command of this checkout to its end. */
  async run(...args: string[]): Promise<Answer> {
    const { code, stdout, stderr } = await this.begin(...args).output();
    const text = new TextDecoder();
    return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
  }

  remove(): void {
    const postgres = `${this.state_dir}/postgres`;
    try {
      Deno.removeSync(Deno.realPathSync(postgres), { recursive: true }); // root's may lie elsewhere
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
    Deno.removeSync(this.dir, { recursive: true });
  }

  #command(args: string[], env: Record<string, string> = {}): Deno.Command {
    return new Deno.Command(Deno.execPath(), {
      args,
      cwd: PROJECT_DIR,
      env: {
        DATABASE_URL: "",
        REDIS_URL: "",
        SCHEDULER_STATE_DIR: this.state_dir,
        SCHEDULER_JOBS_DIR: this.jobs_dir,
        SCHEDULER_ADMIN_PORT: "0",
        NO_COLOR: "1",
        ...env,
      },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    });
  }
}

export class DevProcess {
  readonly pid: number;
  readonly hearing = new Hearing();
  readonly ended: Promise<Deno.CommandStatus>;
  readonly #child: Deno.ChildProcess;

  constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.pid = child.pid;
    const streams = [this.hearing.listen("dev", child.stdout), this.hearing.listen("dev!", child.stderr)];
    this.ended = Promise.all([child.status, ...streams]).then(([status]) => status);
  }

  /** The first line that fits, after `after` if that is given. */
  says(sign: RegExp, on: { after?: { place: number } } = {}): Promise<{ text: string; place: number }> {
    return this.hearing.waitFor(String(sign), (line) => sign.test(line.text) ? line : undefined, on.after?.place);
  }

  /** It may be gone already. */
  kill(signal: Deno.Signal): void {
    try {
      this.#child.kill(signal);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }

  get printed(): string {
    return this.hearing.lines.map(({ text }) => text).join("\n");
  }
}

/** With the cache of compiled code, as the tasks in deno.json have it. */
function mainArgs(...args: string[]): string[] {
  return [...WORKER_ARGS.slice(0, WORKER_ARGS.indexOf("worker")).filter((arg) => arg !== "--no-code-cache"), ...args];
}

/** A folder for PATH that leads to every program but some. */
export function pathWithout(dir: string, hidden: string[]): string {
  Deno.mkdirSync(dir, { recursive: true });
  for (const folder of ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]) {
    for (const name of programsIn(folder)) {
      if (!hidden.includes(name)) linkOnce(`${folder}/${name}`, `${dir}/${name}`);
    }
  }
  return dir;
}

function programsIn(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name);
  } catch {
    return [];
  }
}

/** The first folder wins, as in PATH. */
function linkOnce(target: string, link: string): void {
  try {
    Deno.symlinkSync(target, link);
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}
