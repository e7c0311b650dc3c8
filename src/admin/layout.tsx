/** What surrounds each page: navigation, switches of language and colours, who is logged in, banners of the live stream. */
import { mayActAs } from "../access/users.ts";
import { assetPath } from "./assets.ts";
import { marked } from "./marked.ts";
import { PAGES } from "./pages.ts";
import { Csrf } from "./parts/dialog.tsx";
import { link, type Page, type RequestContext, type Theme } from "./request_context.ts";
import { LANGS, t } from "../locale/locale.ts";

const HTMX_CONFIG = JSON.stringify({
  history: false,
  includeIndicatorCSS: false,
  morphIgnore: ["data-htmx-powered", "open"],
  noSwap: ["204", "304", "4xx", "5xx"],
});

/** `part`: of a page that is there already, which takes what it needs from it. */
export function wholePage(on: RequestContext, page: Page, part: boolean): string {
  return marked(part ? `${<Main on={on} page={page} />}` : `<!DOCTYPE html>${<Html on={on} page={page} />}`);
}

function Html({ on, page }: { on: RequestContext; page: Page }) {
  const asset = (name: string) => link(on, assetPath(name));
  return (
    <html lang={on.lang} data-theme={on.theme} data-base={on.base} data-zone={on.zone} data-now={on.now.getTime()}>
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content={on.theme === "auto" ? "light dark" : on.theme} />
        <meta name="htmx-config" content={HTMX_CONFIG} />
        {page.refresh_seconds && <meta http-equiv="refresh" content={String(page.refresh_seconds)} />}
        <title>{`${page.title} · Dandori`}</title>
        <link rel="icon" href={ICON} />
        <link rel="stylesheet" href={asset("style.css")} />
        {page.assets?.filter((name) => name.endsWith(".css")).map((name) => (
          <link
            rel="stylesheet"
            href={asset(name)}
          />
        ))}
        <script src={asset("htmx.js")} defer></script>
        <script src={asset("admin.js")} type="module"></script>
        {page.assets?.filter((name) => name.endsWith(".js")).map((name) => (
          <script src={asset(name)} type="module"></script>
        ))}
      </head>
      <body>
        <a class="skip" href="#main">{t(on, "layout.skip")}</a>
        <Header on={on} />
        <Main on={on} page={page} />
      </body>
    </html>
  );
}

function Header({ on }: { on: RequestContext }) {
  const role = on.user?.role;
  const here = (path: string) => on.path === path || on.path.startsWith(`${path}/`);
  const pages = role ? PAGES.filter((page) => mayActAs(role, page.role)) : [];
  return (
    <header>
      <a class="brand" href={link(on, "/")}>Dandori</a>
      <nav aria-label={t(on, "layout.pages")}>
        {pages.map(({ path, under = [path], label }) => (
          <a href={link(on, path)} aria-current={under.some(here) ? "page" : undefined}>
            {t(on, label)}
            {path === "/waiting" && <Count on={on} />}
          </a>
        ))}
      </nav>
      <div class="switches">
        <Switches on={on} />
        {on.user && (
          <form method="post" action={link(on, "/logout")} class="who">
            <Csrf on={on} />
            <a href={link(on, "/account")} title={on.user.role}>
              {on.user.name} <small>{on.user.role}</small>
            </a>
            <button type="submit" class="quiet">{t(on, "layout.log_out")}</button>
          </form>
        )}
      </div>
    </header>
  );
}

function Count({ on }: { on: RequestContext }) {
  const { waiting = 0 } = on;
  if (waiting === 0) return null;
  const n = waiting < 100 ? String(waiting) : "99+";
  return <span class="count" aria-label={t(on, "layout.waiting", { n })}>{n}</span>;
}

function Switches({ on }: { on: RequestContext }) {
  const themes: Theme[] = ["auto", "light", "dark"];
  const next_theme = themes[(themes.indexOf(on.theme) + 1) % themes.length];
  const other = LANGS.find((lang) => lang !== on.lang);
  return (
    <form method="post" action={link(on, "/preferences")}>
      <Csrf on={on} />
      <input type="hidden" name="back" value={on.path + (on.query.size > 0 ? `?${on.query}` : "")} />
      <button type="submit" class="quiet" name="theme" value={next_theme} title={t(on, "layout.theme")}>
        {t(on, `layout.theme.${on.theme}`)}
      </button>
      <button type="submit" class="quiet" name="lang" value={other} lang={other}>{t(on, "layout.language")}</button>
    </form>
  );
}

function Main({ on, page }: { on: RequestContext; page: Page }) {
  return (
    <main id="main">
      <div class="banner" data-stream="lost" role="status" hidden>{t(on, "layout.lost")}</div>
      <div class="banner" data-stream="away" role="status" hidden>{t(on, "layout.away")}</div>
      <div class="banner" id="undone" role="alert" hidden>{t(on, "layout.undone")}</div>
      {on.flash && <div class={`flash ${on.flash.tone}`} role="status">{on.flash.text}</div>}
      {page.body}
    </main>
  );
}

const ICON = "data:image/svg+xml," + encodeURIComponent(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#2b5cc4"/>` +
    `<path d="M3 11h4V8h3V5h3" fill="none" stroke="#fff" stroke-width="2"/></svg>`,
);
