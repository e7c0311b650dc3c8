/** A part of a page that stays true while it is looked at: it asks for itself again when one of its topics has changed. */
import type { Child } from "hono/jsx";
import type { Topic } from "../../postgres/change_feed.ts";
import { link, type RequestContext } from "../request_context.ts";

/** `id` is that of the part on its page. What is being typed, focused, opened or scrolled in it stays as it is. */
export function Live(
  { on, id, topics, children }: { on: RequestContext; id: string; topics: Topic[]; children?: Child },
) {
  return (
    <div
      id={id}
      data-live={topics.join(",")}
      hx-get={link(on, on.path, on.query)}
      hx-trigger="live:refresh"
      hx-select={`#${id}`}
      hx-target="this"
      hx-swap="outerMorph"
      hx-sync="this:queue last"
    >
      {children}
    </div>
  );
}
