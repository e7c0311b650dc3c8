import { defineJob } from "dandori";

for (let line = 0; line < 1_000; line++) console.log("\x1e", line);
Deno.stdout.writeSync(new Uint8Array([0x1e, 0xff, 0x00]));

export default defineJob({ description: "loud", on: ["a", "b"], run() {} });
