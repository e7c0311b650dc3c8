/** The figures that are compared, as bars in one SVG: longer is more, whether that is good stands in the title of each part. */
import type { Figure } from "./workload.ts";

const PARTS: { title: string; workload: string; measure: string }[] = [
  { title: "Throughput, runs/s (more is better)", workload: "throughput", measure: "rate" },
  { title: "CPU of everything per 1,000 runs, s (less is better)", workload: "throughput", measure: "cpu all" },
  { title: "Pickup on an idle system, p50, ms (less is better)", workload: "pickup", measure: "p50" },
  { title: "Pickup on an idle system, p99, ms (less is better)", workload: "pickup", measure: "p99" },
  { title: "Due time to body start, p50, ms (less is better)", workload: "due", measure: "p50" },
  { title: "First 2,000 runs, by what waits besides, runs/s (more is better)", workload: "backlog", measure: "rate" },
];
const WIDTH = 900;
const LABEL = 270;
const VALUE = 90;
const ROW = 22;

export function picture(found: Figure[]): string {
  const drawn: string[] = [];
  let y = 30;
  for (const { title, workload, measure } of PARTS) {
    const rows = found.filter((figure) => figure.workload === workload && figure.measure === measure);
    if (rows.length === 0) continue;
    drawn.push(`<text x="10" y="${y}" font-weight="bold">${escaped(title)}</text>`);
    const most = Math.max(...rows.map(({ value }) => value));
    for (const { who, how, value } of rows) {
      y += ROW;
      const width = Math.max(1, value / most * (WIDTH - LABEL - VALUE));
      const fill = who === "dandori" ? "#c2410c" : "#94a3b8";
      drawn.push(
        `<text x="${LABEL - 8}" y="${y}" text-anchor="end">${escaped(`${who}, ${how}`)}</text>`,
        `<rect x="${LABEL}" y="${y - 12}" width="${width.toFixed(1)}" height="15" fill="${fill}"/>`,
        `<text x="${(LABEL + width + 6).toFixed(1)}" y="${y}">${value}</text>`,
      );
    }
    y += 2 * ROW;
  }
  const size = `width="${WIDTH}" height="${y}" viewBox="0 0 ${WIDTH} ${y}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="#fff"/>
${drawn.join("\n")}
</svg>
`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
