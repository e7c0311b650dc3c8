/**
 * What browsers load besides pages: one style sheet, htmx and our own script. Their path holds a digest of them all, so they
 * are kept for ever and a new version is a new path; paths among them stay relative.
 */
import { createHash } from "node:crypto";
import htmx from "htmx.org/dist/htmx.min.js" with { type: "text" };
import admin from "./assets/admin.js" with { type: "text" };
import ago from "./assets/ago.js" with { type: "text" };
import live from "./assets/live.js" with { type: "text" };
import uplot_style from "uplot/dist/uPlot.min.css" with { type: "text" };
import uplot from "uplot/dist/uPlot.iife.min.js" with { type: "text" };
import plots from "./assets/plots.js" with { type: "text" };
import style from "./assets/style.css" with { type: "text" };

const TEXTS: Record<string, string> = {
  "htmx.js": htmx.replace(/\n\/\/# sourceMappingURL=.*/, ""),
  "admin.js": admin,
  "ago.js": ago,
  "live.js": live,
  "plots.js": plots,
  "uplot.js": `${uplot}\nexport default uPlot;\n`,
  "uplot.css": uplot_style,
  "style.css": style,
};

const DIGEST = createHash("sha256").update(JSON.stringify(TEXTS)).digest("hex").slice(0, 16);

export function isAsset(name: string): boolean {
  return Object.hasOwn(TEXTS, name);
}

/** From the base on. */
export function assetPath(name: string): string {
  if (!isAsset(name)) throw new Error(`Cannot link to asset "${name}": there is none`);
  return `/assets/${DIGEST}/${name}`;
}

export function answerAsset(name: string): Response {
  return new Response(TEXTS[name], {
    headers: {
      "content-type": name.endsWith(".css") ? "text/css; charset=utf-8" : "text/javascript; charset=utf-8",
      "cache-control": "public, max-age=31536000, immutable",
    },
  });
}
