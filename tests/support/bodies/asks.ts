/** Does what it was not granted. */
import { hostname } from "node:os";
import { defineJob } from "dandori";

export default defineJob({
  permissions: { env: ["GREETING"] },
  async run({ args }) {
    if (Array.isArray(args)) {
      return await Promise.all(args.map((path) => Deno.readTextFile(path).catch((error) => error.name)));
    }
    switch (args) {
      case "net":
        return (await fetch("https://example.com:8443/")).status;
      case "read":
        return await Deno.readTextFile("/etc/hostname");
      case "environ":
        return await Deno.readTextFile("/proc/self/environ");
      case "parent":
        return await Deno.readTextFile(`/proc/${Deno.ppid}/environ`);
      case "write":
        return await Deno.writeTextFile("/tmp/dandori-test-denied", "x");
      case "env":
        return Deno.env.get("CANARY_SECRET");
      case "all env":
        return Deno.env.toObject();
      case "granted env":
        return Deno.env.get("GREETING");
      case "run":
        return (await new Deno.Command("sh").output()).code;
      case "sys":
        return hostname();
      case "import":
        return await import("https://example.com/code.ts" + "");
      case "stores":
        return [typeof localStorage, typeof caches];
      case "relative read":
        return (await Deno.readTextFile("deno.json")).length > 0;
    }
  },
});
