/**
 * Loads the file of a command when that command is asked for, by a name made here: Deno reads and keeps whatever is imported by a
 * literal name, also where it is never asked for. For all commands that is 7 MiB of each worker, and a third of a second at each start.
 */
interface Files {
  admin: typeof import("../admin.ts");
  alerts: typeof import("../alerts.ts");
  audit: typeof import("../audit.ts");
  bulk: typeof import("../bulk.ts");
  certs: typeof import("../certs.ts");
  dev: typeof import("../dev.ts");
  doctor: typeof import("../doctor.ts");
  drill: typeof import("../drill.ts");
  events: typeof import("../events.ts");
  hooks: typeof import("../hooks.ts");
  jobs: typeof import("../jobs.ts");
  many: typeof import("../many.ts");
  new: typeof import("../new.ts");
  node_health: typeof import("../node_health.ts");
  nodes: typeof import("../nodes.ts");
  queue: typeof import("../queue.ts");
  run: typeof import("../run.ts");
  runs: typeof import("../runs.ts");
  schedule: typeof import("../schedule.ts");
  schedules: typeof import("../schedules.ts");
  schema: typeof import("../schema.ts");
  settings: typeof import("../settings.ts");
  sync: typeof import("../sync.ts");
  tokens: typeof import("../tokens.ts");
  worker: typeof import("../worker.ts");
}

export function load<Name extends keyof Files>(name: Name): Promise<Files[Name]> {
  return import(new URL(`../${name}.ts`, import.meta.url).href);
}
