/** A plan and a report of a sync as text for a terminal. Programs take the report itself, as JSON. */
import { counted, harmless } from "../platform/text.ts";
import type { Json } from "../job.ts";
import type { BulkMisfits, Misfits } from "./misfits.ts";
import { commitText, syncText } from "./confirmation.ts";
import type { RecordedName } from "../steps/journals_in_flight.ts";
import type { JobChange, JobJournals, PermissionGain, Plan, ScheduleChange } from "./plan.ts";
import { problemText } from "./problem.ts";
import type { SyncReport } from "./sync.ts";

export interface TextOptions {
  /** ANSI colors. */
  color: boolean;
  /** Goes before the names of files in problems, so that a terminal can open them: "jobs". */
  folder?: string;
}

/** What a sync found and did, ready to be printed; several lines, no newline at the end. */
export function reportText(report: SyncReport, options: TextOptions): string {
  // What files say is made harmless before it is colored, since the colors would not outlive it.
  return reportLines(report, options).map((line) => {
    const { text, color } = typeof line === "string" ? { text: line } : line;
    return options.color && color ? `\x1b[${color}m${harmless(text)}\x1b[0m` : harmless(text);
  }).join("\n");
}

type Line = string | { text: string; color: number };

const paint = {
  red: (text: string): Line => ({ text, color: 31 }),
  green: (text: string): Line => ({ text, color: 32 }),
  yellow: (text: string): Line => ({ text, color: 33 }),
};

function reportLines({ problems, plan, ...report }: SyncReport, options: TextOptions): Line[] {
  if (problems.length > 0) {
    const texts = problems.map((problem) => problemText(problem, options.folder));
    return [...texts, paint.red(`${counted(problems.length, "problem")}; nothing was changed`)];
  }
  if (!plan) return ["nothing was planned"];
  return [...planLines(plan), ...originLines(report), `${summaryText(plan)}: ${verdictText(report)}`];
}

function verdictText({ drift, applied, mode, needs_yes }: Omit<SyncReport, "problems" | "plan">): string {
  if (!drift) return "no changes";
  if (applied) return "applied";
  const command = `\`deno task sync${needs_yes.length > 0 ? " --yes" : ""}\``;
  return mode === "check"
    ? `the definitions differ from the files; ${command} applies this`
    : `not applied; ${command} does`;
}

/** Where the files come from, where what is stored came from, and what should be looked at for that. */
function originLines({ checkout, last_sync, needs_yes, applied }: Omit<SyncReport, "problems" | "plan">): Line[] {
  if (!checkout) return [];
  const before = last_sync ? `; before: ${syncText(last_sync)}` : "";
  return [
    ...(applied ? [] : needs_yes.map((why) => paint.red(`! ${why}`))),
    `from ${commitText(checkout)} on ${checkout.machine}${before}`,
  ];
}

/** "1 added, 2 changed, 0 removed, 12 unchanged" */
function summaryText(plan: Plan): string {
  const { added, changed, removed, unchanged } = plan;
  return `${added.length} added, ${changed.length} changed, ${removed.length} removed, ${unchanged.length} unchanged`;
}

function planLines(plan: Plan): Line[] {
  return [
    ...plan.added.flatMap((job) => [paint.green(`+ ${headText(job)}`), ...detailLines(job)]),
    ...plan.changed.flatMap((job) => [paint.yellow(`~ ${headText(job)}`), ...detailLines(job)]),
    ...plan.removed.flatMap((job) => [
      paint.red(`- ${headText(job)}`),
      "    its file is gone: it takes no new runs, its history stays",
      ...job.schedules.flatMap(scheduleLines),
    ]),
    ...plan.overrides.map(({ job, name, file_value, value, set_by }) =>
      `= ${job}: the file says ${name} ${valueText(file_value)}; ${
        valueText(value)
      } by ${set_by} stays (deno task jobs reset ${job} ${name})`
    ),
    ...plan.warnings.map(({ job, warning }) => paint.yellow(`! ${job ? `${job}: ` : ""}${warning}`)),
  ];
}

function headText(job: JobChange): string {
  const notes = [
    ...(job.returns ? ["its file is back"] : []),
    ...(job.waiting_runs > 0 ? [`${counted(job.waiting_runs, "waiting run")} affected`] : []),
  ];
  return `${job.name}  ${job.file}${notes.length > 0 ? `  (${notes.join("; ")})` : ""}`;
}

function detailLines(job: JobChange): Line[] {
  const gained = job.permissions_gained.filter((gain) => !gain.unsafe);
  const unsafe = job.permissions_gained.filter((gain) => gain.unsafe);
  const { goes_back } = job;
  return [
    ...(goes_back
      ? [paint.red(
        `    older than what is stored: ${syncText(goes_back.stored)}; this code was ${syncText(goes_back.earlier)}`,
      )]
      : []),
    ...job.fields.map(({ field, before, after }) => `    ${field}: ${valueText(before)} -> ${valueText(after)}`),
    ...(job.journals ? journalLines(job.journals) : []),
    ...(job.misfits ? [paint.red(`    ${misfitText(job.misfits)}`)] : []),
    ...(job.bulk_misfits ?? []).map((one) => paint.red(`    ${bulkMisfitText(one)}`)),
    ...job.schedules.filter(({ change }) => change !== "unchanged").flatMap(scheduleLines),
    ...(gained.length > 0 ? [`    permissions gained: ${gained.map(gainText).join(", ")}`] : []),
    ...(unsafe.length > 0
      ? [paint.red(`    UNSAFE permissions gained: ${unsafe.map(gainText).join(", ")} (this opens the sandbox)`)]
      : []),
  ];
}

const MOST_GONE = 10;

/** "37 runs under way have a journal, the oldest since 12 days (31 wait for message confirmed)", and what the new code means for them. */
function journalLines({ runs, more, oldest_seconds, waits, names: _, gone, on_change }: JobJournals): Line[] {
  const waiting = waits.slice(0, 3).map((one) =>
    `${counted(one.runs, "run")} ${one.runs === 1 ? "waits" : "wait"} for ${nameText(one)}`
  );
  const rest = waiting.length === 0 ? "" : ` (${waiting.join(", ")})`;
  const many = more
    ? `${runs}+ runs under way have`
    : `${counted(runs, "run")} under way ${runs === 1 ? "has" : "have"}`;
  const line = `    ${many} a journal, the oldest since ${spanText(oldest_seconds)}${rest}`;
  if (on_change !== "continue") {
    return [paint.red(`${line}: ${on_change === "fail" ? "they will fail as CodeChanged" : "they will begin again"}`)];
  }
  const further = gone.length > MOST_GONE ? [`    and ${gone.length - MOST_GONE} further names`] : [];
  return [
    line,
    ...gone.slice(0, MOST_GONE).map((one) =>
      paint.yellow(
        `    not in the new code: ${nameText(one)} (${counted(one.runs, "run")} ${
          one.runs === 1 ? "has" : "have"
        } recorded it; unless the code puts the name together, it will be orphaned)`,
      )
    ),
    ...further,
  ];
}

/** `step "tips mail"` */
function nameText({ kind, name }: RecordedName): string {
  if (name === "") return kind === "sleep" ? "a sleep" : `a ${kind}`;
  return `${kind} ${JSON.stringify(name)}`;
}

/** "12 days", "3 h" */
function spanText(seconds: number): string {
  const [span, unit] =
    ([[86_400, " day"], [3_600, " h"], [60, " min"], [1, " s"]] as const).find(([one]) => seconds >= one) ?? [1, " s"];
  const count = Math.floor(seconds / span);
  return `${count}${unit}${unit === " day" && count !== 1 ? "s" : ""}`;
}

/** "bulk 7: 120 of 10,000 items not yet made do not fit, first at item 31: tenant: expected string" */
function bulkMisfitText({ bulk_id, items, of, left, first, why }: BulkMisfits): string {
  const [part, whole] = [of, left].map((count) => count.toLocaleString("en-US"));
  const looked = of < left ? `the first ${part} of ${whole}` : whole;
  return `bulk ${bulk_id}: ${
    items.toLocaleString("en-US")
  } of ${looked} items not yet made do not fit, first at item ${first}: ${why}`;
}

/** "3 of 12 waiting runs do not fit the new args and will fail: 101, 102, 103; the first: tenant: expected string" */
function misfitText({ runs, of, more, first, why }: Misfits): string {
  const rest = runs > first.length ? `, ... (${runs - first.length} more)` : "";
  const looked = more ? `the first ${of} waiting runs` : counted(of, "waiting run");
  return `${runs} of ${looked} do not fit the new args and will fail: ${first.join(", ")}${rest}; the first: ${why}`;
}

function scheduleLines(schedule: ScheduleChange): string[] {
  const { before, after, fires_before, fires_after } = schedule;
  const what = before !== null && after !== null && before !== after ? `${before} -> ${after}` : after ?? before;
  const gone = after === null ? " (ends)" : "";
  const lines = [`    schedule ${schedule.schedule_id}: ${what}${gone}`];
  if (fires_before.join() === fires_after.join()) return lines;
  if (before !== null) lines.push(`      before: ${firesText(fires_before)}`);
  if (after !== null) lines.push(`      next:   ${firesText(fires_after)}`);
  return lines;
}

/** Slots in UTC; the date is left out where it is that of the slot before. */
function firesText(fires: string[]): string {
  if (fires.length === 0) return "never";
  return fires.map((fire, place) => {
    const [date, time] = fire.replace(/(:00)?(\.\d+)?Z$/, "Z").split("T") as [string, string];
    return fires[place - 1]?.startsWith(date) ? time : `${date} ${time}`;
  }).join(", ");
}

function gainText({ permission, what }: PermissionGain): string {
  return what === "*" ? `${permission} (all)` : `${permission} ${what}`;
}

function valueText(value: Json): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > 100 ? `${text.slice(0, 97)}...` : text;
}
