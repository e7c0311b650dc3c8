/** How much there is of a resource, as an operator says. */
import { dropResource, saveResource } from "../../../actions/queue_actions.ts";
import { numberField, orSay } from "../../form_actions.ts";
import { type ActionContext, type Done, field } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

const TO = "/queue";
const MOST = 1_000_000;

export function setCapacity(on: ActionContext): Promise<Done> {
  return orSay(on, TO, async () => {
    const name = field(on.form, "name");
    const capacity = numberField(on, "capacity", { from: 0, to: MOST, whole: true, label: t(on, "queue.capacity") });
    if (name.length < 1 || name.length > 100 || capacity === undefined) {
      return { to: TO, tone: "bad", text: t(on, "queue.set_bad") };
    }
    const changed = await on.perform(saveResource, { name, capacity });
    return { to: TO, text: changed ? t(on, "queue.set_done", { name, capacity }) : t(on, "queue.set_same", { name }) };
  });
}

export function removeResource(on: ActionContext): Promise<Done> {
  return orSay(on, TO, async () => {
    const name = field(on.form, "name");
    await on.perform(dropResource, { name });
    return { to: TO, text: t(on, "queue.remove_done", { name }) };
  });
}
