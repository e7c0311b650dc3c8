/** Lengths of time in a few letters, for the server and for the browser alike. */

const STEPS = [
  { ms: 86_400_000, en: "d", ja: "日" },
  { ms: 3_600_000, en: "h", ja: "時間" },
  { ms: 60_000, en: "m", ja: "分" },
  { ms: 1_000, en: "s", ja: "秒" },
];

/**
 * "3m ago", "in 2h"; to one unit, since it stands beside the time itself.
 * @param {number} ms how long ago; less than 0: in the future
 * @param {"en" | "ja"} lang
 * @returns {string}
 */
export function agoText(ms, lang) {
  const size = Math.abs(ms);
  const step = STEPS.find((one) => size >= one.ms);
  if (!step) return lang === "ja" ? "今" : "now";
  const text = `${Math.floor(size / step.ms)}${step[lang]}`;
  if (lang === "ja") return ms >= 0 ? `${text}前` : `${text}後`;
  return ms >= 0 ? `${text} ago` : `in ${text}`;
}

/**
 * "850 ms", "4.2 s", "3m 05s", "2h 07m", "3d 04h".
 * @param {number} ms
 * @returns {string}
 */
export function durationText(ms) {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const place = STEPS.findIndex((one) => ms >= one.ms);
  const [large, small] = [STEPS[place], STEPS[place + 1]];
  if (!large || !small) return "";
  const rest = String(Math.floor(ms % large.ms / small.ms)).padStart(2, "0");
  return `${Math.floor(ms / large.ms)}${large.en} ${rest}${small.en}`;
}
