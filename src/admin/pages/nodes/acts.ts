/** What an operator does to nodes, workers and the leader: as the command line does it (actions/node_actions.ts). */
import {
  changeOneNode,
  checkNode,
  degrade,
  detachSome,
  drainWorkers,
  removeOneNode,
  undrainWorkers,
} from "../../../actions/node_actions.ts";
import type { NodeChange } from "../../../nodes/node_health.ts";
import { orSay } from "../../form_actions.ts";
import { type ActionContext, type Done, field } from "../../request_context.ts";
import { labelChange, labelsFrom, limitFrom } from "./given.ts";
import { t } from "../../../locale/locale.ts";

/** The leader makes the check, and its result comes onto the page by itself. */
export async function askForTest(on: ActionContext): Promise<Done> {
  const [node_id, to] = [nodeOf(on), nodePath(on)];
  return await orSay(on, to, async () => {
    await on.perform(checkNode, { node_id });
    return { to, text: t(on, "nodes.test_done") };
  });
}

export async function changeLimits(on: ActionContext): Promise<Done> {
  const [node_id, to] = [nodeOf(on), nodePath(on)];
  const limit_text = field(on.form, "max_concurrent");
  const limit = limitFrom(limit_text);
  if (limit === undefined) {
    return { to, tone: "bad", text: t(on, "nodes.bad_limit", { text: limit_text.slice(0, 50) }) };
  }
  const [was, is] = [labelsFrom(field(on.form, "was_labels")), labelsFrom(field(on.form, "labels"))];
  if ("bad" in is) return { to, tone: "bad", text: t(on, "nodes.bad_label", { text: is.bad.slice(0, 200) }) };
  const change: NodeChange = {
    max_concurrent: limit_text === field(on.form, "was_max_concurrent") ? undefined : limit,
    labels: labelChange("labels" in was ? was.labels : {}, is.labels),
  };
  if (change.max_concurrent === undefined && change.labels === undefined) {
    return { to, text: t(on, "nodes.change_same") };
  }
  return await orSay(on, to, async () => {
    await on.perform(changeOneNode, { node_id, ...change });
    return { to, text: t(on, "nodes.change_done", { id: node_id }) };
  });
}

export async function setMaintenance(on: ActionContext): Promise<Done> {
  const [node_id, to] = [nodeOf(on), nodePath(on)];
  return await orSay(on, to, async () => {
    await on.perform(changeOneNode, { node_id, maintenance: field(on.form, "maintenance") === "on" });
    return { to, text: t(on, "nodes.change_done", { id: node_id }) };
  });
}

export async function removeOne(on: ActionContext): Promise<Done> {
  const node_id = nodeOf(on);
  return await orSay(on, nodePath(on), async () => {
    await on.perform(removeOneNode, { node_id });
    return { to: "/nodes", text: t(on, "nodes.remove_done", { id: node_id }) };
  });
}

/** Of a node: of all its workers. */
export function drainThem(draining: boolean) {
  return async (on: ActionContext): Promise<Done> => {
    const to = placeOf(on);
    return await orSay(on, to, async () => {
      const moved = await on.perform(draining ? drainWorkers : undrainWorkers, { name: nameOf(on) });
      const names = moved.map(({ worker_id }) => worker_id).join(", ");
      return {
        to,
        text: t(on, "nodes.moved", { verb: draining ? t(on, "nodes.drain") : t(on, "nodes.undrain"), names }),
      };
    });
  };
}

export async function detachThem(on: ActionContext): Promise<Done> {
  const to = placeOf(on);
  return await orSay(on, to, async () => {
    const { detached, told } = await on.perform(detachSome, { name: nameOf(on) });
    const text = t(on, "nodes.moved", {
      verb: t(on, "nodes.detach"),
      names: detached.map(({ worker_id }) => worker_id).join(", "),
    });
    return { to, text: told ? text : `${text}. ${t(on, "nodes.not_told")}` };
  });
}

export async function degradeIt(on: ActionContext): Promise<Done> {
  const epoch = Number(field(on.form, "epoch"));
  return await orSay(on, "/nodes", async () => {
    const { worker_id } = await on.perform(degrade, { epoch: Number.isSafeInteger(epoch) ? epoch : 0 });
    return { to: "/nodes", text: t(on, "nodes.degrade_done", { id: worker_id }) };
  });
}

function nodeOf(on: ActionContext): string {
  return on.params.node_id ?? "";
}

function nodePath(on: ActionContext): string {
  return `/nodes/${encodeURIComponent(nodeOf(on))}`;
}

function nameOf(on: ActionContext): string {
  return on.params.worker_id ?? nodeOf(on);
}

function placeOf(on: ActionContext): string {
  return on.params.worker_id === undefined ? nodePath(on) : `/workers/${encodeURIComponent(on.params.worker_id)}`;
}
