/**
 * Loads the file of a command when that command is asked for, by a name made here: Deno reads and keeps whatever is imported by a
 * literal name, also where it is never asked for. For all commands that is 7 MiB of each worker, and a third of a second at each start.
 */
interface Files {
  "operate/admin": typeof import("../operate/admin.ts");
  "operate/alerts": typeof import("../operate/alerts.ts");
  "operate/audit": typeof import("../operate/audit.ts");
  "runs/bulk": typeof import("../runs/bulk.ts");
  "services/certs": typeof import("../services/certs.ts");
  "services/dev": typeof import("../services/dev.ts");
  "operate/doctor": typeof import("../operate/doctor.ts");
  "operate/drill": typeof import("../operate/drill.ts");
  "runs/events": typeof import("../runs/events.ts");
  "operate/webhooks": typeof import("../operate/webhooks.ts");
  "files/jobs": typeof import("../files/jobs.ts");
  "runs/many": typeof import("../runs/many.ts");
  "files/new": typeof import("../files/new.ts");
  "operate/node_health": typeof import("../operate/node_health.ts");
  "operate/nodes": typeof import("../operate/nodes.ts");
  "runs/queue": typeof import("../runs/queue.ts");
  "runs/run": typeof import("../runs/run.ts");
  "runs/runs": typeof import("../runs/runs.ts");
  "runs/forks": typeof import("../runs/forks.ts");
  "runs/send": typeof import("../runs/send.ts");
  "runs/steps": typeof import("../runs/steps.ts");
  "files/schedule": typeof import("../files/schedule.ts");
  "files/schedules": typeof import("../files/schedules.ts");
  "services/secret": typeof import("../services/secret.ts");
  "services/schema": typeof import("../services/schema.ts");
  "operate/settings": typeof import("../operate/settings.ts");
  "files/sync": typeof import("../files/sync.ts");
  "operate/tokens": typeof import("../operate/tokens.ts");
  "../app/worker_process": typeof import("../../app/worker_process.ts");
}

export function load<Name extends keyof Files>(name: Name): Promise<Files[Name]> {
  return import(new URL(`../${name}.ts`, import.meta.url).href);
}
