/** `alerts ls`, `alerts ack`, `alerts test`: what somebody should look at, and whether the webhook hears of it. */
import { monotonicMs, rest } from "../../platform/timers.ts";
import { acknowledgeAlert, testAlerts } from "../../actions/system_actions.ts";
import { listAlerts, readDelivery } from "../../alerts/alerts.ts";
import { act, type JsonOption, performOn, type Reasoned, withDb } from "../operator.ts";
import { CommandError, EXIT, printJson, say } from "../../app/output.ts";
import { printTable } from "../table.ts";
import { localTimes } from "../times.ts";
import { stored } from "../../locale/message.ts";
import { english } from "../../locale/english.ts";

export async function listCommand(options: JsonOption & { all?: boolean; limit: number }): Promise<void> {
  const alerts = await withDb((sql) => listAlerts(sql, { open: !options.all, limit: options.limit }));
  if (options.json) return printJson(alerts);
  printTable(
    ["id", "alert", "subject", "since", "until", "seen by", "delivered", "message"],
    alerts.map((one) => [
      one.id,
      one.kind,
      one.subject,
      one.opened_at,
      one.closed_at,
      one.acked_by,
      one.told_at ? "yes" : one.last_error ?? "no",
      localTimes(english(one.message)),
    ]),
    options.all ? "no alerts yet" : "no open alerts",
  );
}

export async function ackCommand(text: string, options: Reasoned): Promise<void> {
  const id = Number(text);
  if (!Number.isSafeInteger(id) || id < 1) {
    throw new CommandError(
      `Cannot use "${text}": give an alert's id; deno task alerts ls lists them`,
      EXIT.usage,
    );
  }
  const { acked } = await act(acknowledgeAlert, { id }, options);
  if (!acked) {
    throw new CommandError(`Cannot ack alert ${id}: it is not open or already acknowledged; see deno task alerts ls`);
  }
  if (options.json) printJson({ id, acked: true });
  else say(`alert ${id} is acknowledged`);
}

const ASK_EVERY_MS = 200;
/** Two looks of the workers, and one answer. */
const PATIENCE_MS = 20_000;

/** The workers send it, as they would an alert. */
export async function testCommand(options: JsonOption): Promise<void> {
  const told = await withDb(async (sql) => {
    const { delivery_id: id } = await performOn(sql, testAlerts, {}, { reason: stored("reason.alert_test") });
    const late_ms = monotonicMs() + PATIENCE_MS;
    for (;;) {
      const row = await readDelivery(sql, id);
      if (!row || row.delivered_at || row.last_error || monotonicMs() > late_ms) return row;
      await rest(ASK_EVERY_MS);
    }
  });
  if (told?.delivered_at) {
    if (options.json) return printJson(told);
    return say(`the webhook accepted the test alert, sent by ${told.claimed_by}`);
  }
  const error = told?.last_error
    ? `The webhook did not accept the test alert: ${english(told.last_error)}`
    : "No worker sent the test alert: set SCHEDULER_ALERT_WEBHOOK_URL for at least one worker and restart it";
  if (options.json) printJson({ ...told, error });
  throw new CommandError(options.json ? "" : error);
}
