/** What more than one command opens. */
import { type Config, environment, PROJECT_DIR } from "../base/config.ts";
import { Sandbox } from "../sandbox/pool.ts";

export function openSandbox(config: Pick<Config, "state_dir">, spares: number): Sandbox {
  return new Sandbox({ project_dir: PROJECT_DIR, state_dir: config.state_dir, spares, env: environment() });
}
