/** The stream of a browser: names of topics, and a sign of life, by which it notices that the connection is gone. */
import type { Context } from "hono";
import { streamSSE } from "hono/streaming";
import { after, Wakeup } from "../platform/timers.ts";
import { type Topic, TOPICS } from "../postgres/change_feed.ts";
import type { Live } from "./live.ts";

const SIGN_OF_LIFE_MS = 15_000;
/** Then the browser connects again, and has to be logged in still. */
const LONGEST_MS = 5 * 60_000;
const MOST_TOPICS = 200;

/** "runs,run:812"; what is no topic is left out. */
function topicsIn(text: string): Topic[] {
  const known: readonly string[] = TOPICS;
  const given = text.split(",").filter((topic) => known.includes(topic) || /^run:[1-9]\d{0,14}$/.test(topic));
  return [...new Set(given)].slice(0, MOST_TOPICS) as Topic[];
}

/** Ends with `stop`, with the browser, with its session, or after a while. `who`: the user's name; `session`: the digest of its token. */
export function answerLive(
  c: Context,
  { live, stop, who, session }: { live: Live; stop: AbortSignal; who: string; session: string },
): Response {
  if (c.req.method === "HEAD") return c.body(null); // nobody reads its stream, so nothing would end it before its time
  const told: { event: string; data: string }[] = [];
  const wakeup = new Wakeup();
  const tell = (event: string, data = "") => {
    told.push({ event, data });
    wakeup.signal();
  };
  const gone = new AbortController();
  const unwatch = live.watch({
    who,
    session,
    topics: topicsIn(c.req.query("topics") ?? ""),
    watching: () => tell("watching"),
    changed: (topics) => tell("changed", topics.join(",")),
    away: (away) => tell(away ? "away" : "back"),
    over: () => gone.abort(),
  });
  if (unwatch === "theirs") return c.text(`Too many pages of ${who} are open: close some of them`, 429);
  if (unwatch === "all") return c.text("Too many watch this server", 503);
  c.header("x-accel-buffering", "no"); // nginx keeps it back otherwise
  return streamSSE(c, async (stream) => {
    stream.onAbort(() => gone.abort());
    const cancel = after(LONGEST_MS, () => gone.abort());
    const over = AbortSignal.any([stop, gone.signal]);
    const ended = new Promise<void>((resolve) => over.addEventListener("abort", () => resolve(), { once: true }));
    try {
      while (!over.aborted) {
        // Who reads nothing keeps a write waiting for ever, and must not keep its place as well.
        for (const message of told.splice(0)) await Promise.race([stream.writeSSE(message), ended]);
        await wakeup.rest(SIGN_OF_LIFE_MS, over);
        if (told.length === 0 && !over.aborted) told.push({ event: "alive", data: "" });
      }
    } finally {
      cancel();
      unwatch();
    }
  });
}
