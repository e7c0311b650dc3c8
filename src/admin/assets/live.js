/**
 * Keeps what is shown true. One stream for the page names what has changed; parts that show it ask for themselves again. A
 * stream that is lost is said, tried again, and followed by asking for everything, since anything may have changed. A page that
 * nobody looks at has no stream.
 */
const SILENT_AFTER_MS = 40_000;
const LONGEST_WAIT_MS = 15_000;
/** A connection that comes back at once is not worth a word. */
const SAY_AFTER_MS = 1_500;
/** A busy list shows other runs all the time. */
const REOPEN_AFTER_MS = 1_000;

/** Not by `reload`, which would send a form again where the page is the answer to one. */
export function loadAnew() {
  location.assign(location.pathname + location.search);
}

export function startLive(base) {
  const parts = () => [...document.querySelectorAll("[data-live]")];
  if (parts().length === 0) return;
  let stream, asked = "", heard_ms = 0, wait_ms = 500, retry, say, reopen;

  const topics = () => [...new Set(parts().flatMap((part) => part.dataset.live.split(",")))].join(",");

  const refresh = (changed) => {
    for (const part of parts()) {
      const theirs = part.dataset.live.split(",");
      if (!changed || theirs.some((topic) => changed.includes(topic))) htmx.trigger(part, "live:refresh");
    }
  };
  const show = (id) => {
    for (const banner of document.querySelectorAll("[data-stream]")) banner.hidden = banner.dataset.stream !== id;
  };
  const well = () => {
    clearTimeout(say);
    say = undefined;
    wait_ms = 500;
    show(undefined);
    refresh();
  };
  const open = () => {
    stream?.close();
    asked = topics();
    stream = new EventSource(`${base}/live?topics=${encodeURIComponent(asked)}`);
    heard_ms = performance.now();
    stream.addEventListener("watching", well);
    stream.addEventListener("back", well);
    stream.addEventListener("away", () => show("away"));
    stream.addEventListener("changed", ({ data }) => refresh(data.split(",")));
    for (const kind of ["watching", "back", "away", "changed", "alive"]) {
      stream.addEventListener(kind, () => heard_ms = performance.now());
    }
    stream.onerror = lost;
  };
  const lost = () => {
    stream?.close();
    say ??= setTimeout(() => show("lost"), SAY_AFTER_MS);
    clearTimeout(retry);
    retry = setTimeout(again, wait_ms);
    wait_ms = Math.min(wait_ms * 2, LONGEST_WAIT_MS);
  };
  const again = async () => {
    try {
      const answer = await fetch(location.href, { headers: { "hx-request": "true" } });
      if (answer.status === 401) return loadAnew(); // logged out meanwhile: the login says so
    } catch {
      return lost();
    }
    if (!document.hidden) open();
  };

  // What was asked for did not come: what is shown may be old, though the stream is open still.
  document.addEventListener("htmx:error", ({ target }) => {
    if (target instanceof Element && target.closest("[data-live]")) lost();
  });
  // Logged out, not allowed any more, or gone: the whole page says which. That Postgres is away says the stream.
  document.addEventListener("htmx:response:error", ({ target, detail }) => {
    if (target.matches("[data-live]") && detail.ctx.response.status < 500) loadAnew();
  });
  setInterval(() => {
    if (stream?.readyState === EventSource.OPEN && performance.now() - heard_ms > SILENT_AFTER_MS) lost();
  }, 5_000);
  // What a part shows now may be other things than when the stream was opened.
  document.addEventListener("htmx:after:swap", () => {
    if (topics() === asked || reopen || document.hidden) return;
    reopen = setTimeout(() => {
      reopen = undefined;
      if (topics() !== asked && stream?.readyState === EventSource.OPEN) open();
    }, REOPEN_AFTER_MS);
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return open();
    clearTimeout(retry);
    stream?.close();
  });
  addEventListener("pagehide", () => stream?.close());
  addEventListener("pageshow", ({ persisted }) => persisted && open());
  if (!document.hidden) open();
}
