/** What more than one command opens. */
import { type Config, environment, PROJECT_DIR, readConfig } from "../platform/config.ts";
import { ProcessPool } from "../sandbox/process_pool.ts";
import { DEFAULT_SETTINGS } from "../settings/settings.ts";

/** Passwords, keys, data and outcomes in `.dandori/`. */
const DEV_SECRETS = [
  "dev.json",
  "certs",
  "postgres",
  "redis",
  "estates",
  "admin_password",
  "callback_secret",
  "archive",
];

/** For commands that talk to Postgres only: they need no REDIS_URL. */
export function readConfigForDb(): Omit<Config, "redis_url"> {
  const env = environment();
  return readConfig({ ...env, REDIS_URL: env.REDIS_URL || "-" });
}

/** For what works without Redis, only later. Undefined: nothing says where it is. */
export function redisPlace(): Config | undefined {
  try {
    return readConfig();
  } catch {
    return undefined;
  }
}

/** `secret_paths`: what no body may open, whatever its file asks for, besides what `dev` keeps in its folder. */
export function openSandbox(
  config: Pick<Config, "state_dir">,
  options: { spares?: number; slots?: () => number; secret_paths?: string[]; owner?: string } = {},
): ProcessPool {
  return new ProcessPool({
    project_dir: PROJECT_DIR,
    state_dir: config.state_dir,
    spares: options.spares ?? DEFAULT_SETTINGS.spare_processes,
    slots: options.slots,
    env: environment(),
    owner: options.owner,
    secret_paths: [...options.secret_paths ?? [], ...DEV_SECRETS.map((name) => `${config.state_dir}/${name}`)],
  });
}
