/** What there is of alerts, and who may do it. */
import { ackAlert, requestTest } from "../../../store/alerts.ts";
import { by } from "../../acting.ts";
import { type Act, type Done, idParam, type Route } from "../../visit.ts";
import { showAlerts } from "./list.tsx";
import { ALERTS } from "./words.ts";

export const alertRoutes: Route[] = [
  { get: "/alerts", role: "viewer", show: showAlerts },
  { post: "/alerts/test", role: "admin", act: testWebhook },
  { post: "/alerts/:id/ack", role: "operator", act: acknowledge },
];

async function acknowledge(on: Act): Promise<Done> {
  const say = ALERTS[on.lang];
  const done = await ackAlert(on.sql, idParam(on), by(on));
  return done ? { to: "/alerts", text: say.ack_done } : { to: "/alerts", tone: "bad", text: say.ack_not };
}

async function testWebhook(on: Act): Promise<Done> {
  const id = await requestTest(on.sql, by(on));
  return { to: `/alerts?test=${id}`, text: ALERTS[on.lang].test_asked };
}
