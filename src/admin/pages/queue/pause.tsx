/** Stopping and letting go of all dispatch, a job or a serial key: a page says what waits and runs of it, and asks. */
import { pauseQueue, resumeQueue, type What } from "../../../actions/queue_actions.ts";
import { countOpen } from "../../../dispatch/pauses.ts";
import { orSay } from "../../form_actions.ts";
import { Foot } from "../../parts/dialog.tsx";
import {
  type ActionContext,
  type Done,
  link,
  type Page,
  PageError,
  type RequestContext,
} from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

interface Asked extends What {
  paused: boolean;
}

/** As the URL says: `?do=pause&job=NAME`, `?do=resume&key=KEY`, `?do=pause&all=yes`. @throws Refusal 400 */
function askedIn(on: RequestContext): Asked {
  const verb = on.query.get("do");
  if (verb !== "pause" && verb !== "resume") throw new PageError(400);
  const [job_name, serial_key] = [on.query.get("job") || undefined, on.query.get("key") || undefined];
  const all = on.query.get("all") === "yes" ? true : undefined;
  if ([job_name, serial_key, all].filter((one) => one !== undefined).length !== 1) throw new PageError(400);
  if (all && (on.query.has("job") || on.query.has("key"))) throw new PageError(400); // a name that was left empty
  return { job_name, serial_key, all, paused: verb === "pause" };
}

export async function showPause(on: RequestContext): Promise<Page> {
  const asked = askedIn(on);
  const { job_name, serial_key, paused } = asked;
  const { waiting, running } = await countOpen(on.sql, { job_name, serial_key });
  const title = titleOf(on, asked);
  return {
    title,
    body: (
      <section>
        <h1>{title}</h1>
        <p>
          {t(on, "queue.touches", {
            waiting: waiting.toLocaleString("en-US"),
            running: running.toLocaleString("en-US"),
          })} {job_name !== undefined && paused && t(on, "queue.touches_job_slots")}
        </p>
        <form class="start narrow-form" method="post" action={link(on, "/queue/pause", on.query)}>
          <Foot on={on} back={link(on, "/queue")} verb={verbOf(on, asked)} danger={paused} />
        </form>
      </section>
    ),
  };
}

function titleOf(on: RequestContext, { job_name, serial_key, paused }: Asked): string {
  if (job_name !== undefined) {
    return paused
      ? t(on, "queue.ask_pause_job", { name: job_name })
      : t(on, "queue.ask_resume_job", { name: job_name });
  }
  if (serial_key !== undefined) {
    return paused
      ? t(on, "queue.ask_pause_key", { key: serial_key })
      : t(on, "queue.ask_resume_key", { key: serial_key });
  }
  return paused ? t(on, "queue.ask_pause_all") : t(on, "queue.ask_resume_all");
}

function verbOf(on: RequestContext, { job_name, serial_key, paused }: Asked): string {
  if (job_name === undefined && serial_key === undefined) {
    return paused ? t(on, "queue.pause_all") : t(on, "queue.resume_all");
  }
  if (paused) return t(on, "queue.pause");
  return serial_key === undefined ? t(on, "queue.resume") : t(on, "queue.unblock");
}

export function doPause(on: ActionContext): Promise<Done> {
  const { paused, job_name, serial_key, all } = askedIn(on);
  const what = job_name !== undefined
    ? t(on, "queue.the_job", { name: job_name })
    : serial_key !== undefined
    ? t(on, "queue.the_key", { key: serial_key })
    : t(on, "queue.all_dispatch");
  return orSay(on, "/queue", async () => {
    const changed = await on.perform(paused ? pauseQueue : resumeQueue, { job_name, serial_key, all });
    const text = !changed
      ? t(on, "queue.done_same", { what })
      : paused
      ? t(on, "queue.done_paused", { what })
      : t(on, "queue.done_resumed", { what });
    return { to: "/queue", text };
  });
}
