/** What there is of alerts, and who may do it. */
import { acknowledgeAlert, testAlerts } from "../../../actions/system_actions.ts";
import type { ActionContext, Done, Route } from "../../request_context.ts";
import { acknowledge } from "./ack.tsx";
import { showAlerts } from "./list.tsx";
import { t } from "../../../locale/locale.ts";

export const alertRoutes: Route[] = [
  { get: "/alerts", role: "viewer", show: showAlerts },
  { post: "/alerts/test", does: testAlerts, act: testWebhook },
  ...["/alerts", "/overview"].map((page): Route => (
    { post: `${page}/:id/ack`, does: acknowledgeAlert, act: (on) => acknowledge(on, page) }
  )),
];

async function testWebhook(on: ActionContext): Promise<Done> {
  const { delivery_id: id } = await on.perform(testAlerts, {});
  return { to: `/alerts?test=${id}`, text: t(on, "alerts.test_asked") };
}
