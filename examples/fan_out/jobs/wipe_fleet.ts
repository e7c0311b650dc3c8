// Asks a person first; then one run for each device, with a bulk's pace, and one answer when all have ended.
import { defineJob } from "dandori";
import { z } from "zod";
import type wipeDevice from "./wipe_device.ts";

export default defineJob({
  description: "Wipe many devices, once somebody has agreed",
  args: z.object({ devices: z.int().min(1).max(10_000), requestedBy: z.string() }),
  messages: { approval: z.object({ approved: z.boolean(), comment: z.string().optional() }) },
  permissions: { call: ["wipe_device"] },
  async run({ args, waitFor, callMany }) {
    const answer = await waitFor("approval", {
      ask: `Wipe ${args.devices} devices?`,
      show: { requestedBy: args.requestedBy },
      who: ["role:operator"],
      notBy: args.requestedBy,
      timeout: "14 days",
    });
    if (!answer?.approved) return { wiped: 0, failed: 0 };
    const devices = Array.from({ length: args.devices }, (_, place) => ({ device: place + 1 }));
    const done = await callMany<typeof wipeDevice>("wipe_device", devices, { parallel: 20 });
    return { wiped: done.succeeded, failed: done.failed };
  },
});
