/** Why something waits, in the viewer's language and zone, with a way to what it waits for. */
import type { Waits } from "../../runs/wait_reason.ts";
import { waitText } from "../../locale/wait_text.ts";
import { t } from "../../locale/locale.ts";
import { link, type RequestContext } from "../request_context.ts";

export function Why({ on, waits }: { on: RequestContext; waits: Waits }) {
  const place = placeOf(waits);
  const to = place && `/${[place.page, place.name].filter(Boolean).join("/")}`;
  return (
    <>
      {waitText(on, waits)}
      {place && to !== on.path && (
        <>
          {" "}
          <a href={link(on, to as string)}>
            {[t(on, `places.to.${place.page}`), place.name].filter(Boolean).join(" ")}
          </a>
        </>
      )}
    </>
  );
}

type Place = { page: "runs" | "bulks" | "jobs" | "queue" | "nodes"; name?: string };

function placeOf({ code, params }: Waits): Place | undefined {
  const name = (param: string) => String((params as Record<string, unknown>)[param]);
  switch (code) {
    case "behind_run":
      return { page: "runs", name: name("run_id") };
    case "bulk_paused":
    case "bulk_full":
    case "behind_bulk":
      return { page: "bulks", name: name("bulk_id") };
    case "job_paused":
    case "job_limit":
    case "rate":
      return { page: "jobs", name: name("job_name") };
    case "dispatch_paused":
    case "key_stopped":
    case "resource_unknown":
    case "resource_short":
      return { page: "queue" };
    case "nobody_there":
    case "maintenance":
    case "unavailable":
    case "busy":
    case "none_takes_work":
    case "node_full":
    case "no_slot":
    case "no_code":
    case "no_leader":
      return { page: "nodes" };
  }
}
