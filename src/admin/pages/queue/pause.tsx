/** Stopping and letting go of all dispatch, a job or a serial key: a page says what waits and runs of it, and asks. */
import { setPaused, type What } from "../../../actions/queue_actions.ts";
import { countOpen } from "../../../dispatch/pauses.ts";
import { by, orSay } from "../../form_actions.ts";
import { Foot } from "../../parts/dialog.tsx";
import {
  type ActionContext,
  type Done,
  link,
  type Page,
  PageError,
  type RequestContext,
} from "../../request_context.ts";
import { QUEUE } from "./words.ts";

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
  const say = QUEUE[on.lang];
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
          {say.touches(waiting.toLocaleString("en-US"), running.toLocaleString("en-US"))}{" "}
          {job_name !== undefined && paused && say.touches_job_slots}
        </p>
        <form class="start narrow-form" method="post" action={link(on, "/queue/pause", on.query)}>
          <Foot on={on} back={link(on, "/queue")} verb={verbOf(on, asked)} danger={paused} />
        </form>
      </section>
    ),
  };
}

function titleOf(on: RequestContext, { job_name, serial_key, paused }: Asked): string {
  const say = QUEUE[on.lang];
  if (job_name !== undefined) return paused ? say.ask_pause_job(job_name) : say.ask_resume_job(job_name);
  if (serial_key !== undefined) return paused ? say.ask_pause_key(serial_key) : say.ask_resume_key(serial_key);
  return paused ? say.ask_pause_all : say.ask_resume_all;
}

function verbOf(on: RequestContext, { job_name, serial_key, paused }: Asked): string {
  const say = QUEUE[on.lang];
  if (job_name === undefined && serial_key === undefined) return paused ? say.pause_all : say.resume_all;
  if (paused) return say.pause;
  return serial_key === undefined ? say.resume : say.unblock;
}

export function doPause(on: ActionContext): Promise<Done> {
  const say = QUEUE[on.lang];
  const { paused, job_name, serial_key, all } = askedIn(on);
  const what = job_name !== undefined
    ? say.the_job(job_name)
    : serial_key !== undefined
    ? say.the_key(serial_key)
    : say.all_dispatch;
  return orSay(on, "/queue", async () => {
    const changed = await setPaused(on.sql, { job_name, serial_key, all }, { ...by(on), paused });
    const text = !changed ? say.done_same(what) : paused ? say.done_paused(what) : say.done_resumed(what);
    return { to: "/queue", text };
  });
}
