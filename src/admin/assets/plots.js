/** Draws the plots of the overview, asks for their figures again every few seconds, and has the live parts do the same. */
const { default: uPlot } = await import(new URL("uplot.js", import.meta.url).href);

const AGAIN_MS = 10_000;
const HEIGHT = 160;

const place = document.getElementById("plots");
const zone = document.documentElement.dataset.zone ?? "UTC";
const lang = document.documentElement.lang;
const drawn = new Map();

if (place) draw();
setInterval(() => {
  if (document.hidden) return;
  if (place) draw();
  for (const part of document.querySelectorAll("[data-live]")) htmx.trigger(part, "live:refresh");
}, AGAIN_MS);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const { plot } of drawn.values()) plot.destroy();
  drawn.clear();
  draw();
});

async function draw() {
  let figures;
  try {
    const answer = await fetch(place.dataset.from);
    if (!answer.ok) return; // the live stream says what is wrong
    figures = await answer.json();
  } catch {
    return;
  }
  for (const box of place.querySelectorAll(".plot")) {
    const lines = box.dataset.lines.split(",");
    const data = [figures.at, ...lines.map((line) => figures[line])];
    const before = drawn.get(box);
    if (before) before.plot.setData(data);
    else drawn.set(box, plotIn(box, data));
  }
}

function plotIn(box, data) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--plot-" + name).trim();
  const axis = {
    stroke: colour("soft"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  const tones = box.dataset.tones.split(",");
  const times = new Intl.DateTimeFormat(lang, timeParts());
  const series = box.dataset.names.split("|").map((label, place) => ({
    label,
    stroke: colour(tones[place]),
    width: 1.5,
    fill: tones.length === 1 ? colour(tones[place]) + "22" : undefined,
    points: { show: true, size: 4, filter: (plot, place) => aloneIn(plot.data[place]) },
    value: (_, value) => value === null || value === undefined ? "–" : String(Math.round(value * 100) / 100),
  }));
  const options = {
    width: box.clientWidth,
    height: HEIGHT,
    series: [{ label: box.dataset.time, value: (_, at) => at === null ? "–" : times.format(at * 1_000) }, ...series],
    axes: [
      { ...axis, size: 26, values: (_, ats) => ats.map((at) => times.format(at * 1_000)), space: 70 },
      { ...axis, size: 46, values: (_, values) => values.map(shortNumber) },
    ],
    scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 0) > 0 ? high * 1.08 : 1] } },
    cursor: { points: { size: 6 }, drag: { x: false, y: false }, sync: { key: "overview" } },
  };
  const plot = new uPlot(options, data, box);
  new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);
  return { plot };
}

/** Of these no line can be drawn: nothing is known just before them and just after. */
function aloneIn(values) {
  const known = (at) => values[at] !== null && values[at] !== undefined;
  return [...values.keys()].filter((at) => known(at) && !known(at - 1) && !known(at + 1));
}

function timeParts() {
  const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone };
  return place.dataset.range === "7d" ? { month: "numeric", day: "numeric", ...clock } : clock;
}

function shortNumber(value) {
  if (value >= 1_000_000) return value / 1_000_000 + "M";
  return value >= 10_000 ? value / 1_000 + "k" : String(value);
}
