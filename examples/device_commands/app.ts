// Sends commands to two devices as one statement, so that none starts before all are in line.
import { createClient } from "dandori/client";
import sendCommand from "./jobs/send_command.ts";

const client = createClient({ databaseUrl: Deno.env.get("DATABASE_URL")! });
await client.enqueueMany(sendCommand, [
  { args: { device: 7, command: "report" } },
  { args: { device: 7, command: "sync" } }, // the gateway is busy at first: it is tried again, and what is behind it waits
  { args: { device: 7, command: "lock" }, priority: "admin.high" }, // goes first
  { args: { device: 8, command: "explode" } }, // is refused for good, and so device 8 stops
  { args: { device: 8, command: "report" } },
]);
await client.close();
