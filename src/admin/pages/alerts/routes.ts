/** What there is of alerts, and who may do it. */
import { requestTest } from "../../../alerts/alerts.ts";
import { by } from "../../form_actions.ts";
import type { ActionContext, Done, Route } from "../../request_context.ts";
import { acknowledge } from "./ack.tsx";
import { showAlerts } from "./list.tsx";
import { t } from "../../../locale/locale.ts";

export const alertRoutes: Route[] = [
  { get: "/alerts", role: "viewer", show: showAlerts },
  { post: "/alerts/test", role: "admin", act: testWebhook },
  ...["/alerts", "/overview"].map((page): Route => (
    { post: `${page}/:id/ack`, role: "operator", act: (on) => acknowledge(on, page) }
  )),
];

async function testWebhook(on: ActionContext): Promise<Done> {
  const id = await requestTest(on.sql, by(on));
  return { to: `/alerts?test=${id}`, text: t(on, "alerts.test_asked") };
}
