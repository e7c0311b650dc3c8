// Each night the orders of the day before are added up; `scheduledFor`, not the clock, says which night it is.
import { defineJob } from "dandori";

const TIMEZONE = "Asia/Tokyo";
const ORDERS = "examples/nightly_report/data/orders.csv";

export default defineJob({
  description: "Add up the orders of the day before",
  schedule: {
    id: "nightly",
    dailyAt: "02:30",
    timezone: TIMEZONE,
    exclude: ["12-29/01-03", "2026-05-04"], // the shop is closed
    misfire: "last", // after an outage one run makes up, with the last slot; a backfill adds the nights before it
  },
  concurrency: "queueOne",
  timeoutSeconds: 300,
  retry: { max: 3, backoffSeconds: 60 },
  permissions: { read: [ORDERS] },
  async run({ scheduledFor, log }) {
    const day = dayBefore(new Date(scheduledFor));
    const [, ...lines] = (await Deno.readTextFile(ORDERS)).trim().split("\n");
    const amounts = lines.map((line) => line.split(",")).filter(([date]) => date === day).map(([, , yen]) =>
      Number(yen)
    );
    const total = amounts.reduce((sum, yen) => sum + yen, 0);
    log.info(`${amounts.length} orders on ${day}`, { total });
    return { day, orders: amounts.length, total };
  },
});

/** On the calendar of the schedule's zone, in which UTC may still have yesterday. */
function dayBefore(instant: Date): string {
  const today = Temporal.Instant.fromEpochMilliseconds(instant.getTime()).toZonedDateTimeISO(TIMEZONE).toPlainDate();
  return today.subtract({ days: 1 }).toString();
}
