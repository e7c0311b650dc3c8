/** The command line as a user gives it, in an environment of the test's own. */
import { PROJECT_DIR } from "../../src/base/config.ts";

export interface Said {
  code: number;
  out: string;
  err: string;
}

/** Gives a command with these variables, beside those of the test. */
export function cliWith(env: Record<string, string>): (...args: string[]) => Promise<Said> {
  return async (...args) => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "main.ts", ...args],
      cwd: PROJECT_DIR,
      env: { ...env, NO_COLOR: "1" },
    }).output();
    return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
  };
}
