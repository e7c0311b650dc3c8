// Permissions: this body may read one file and see one variable, and nothing else. Take a line away and run it again:
// the run fails once, unretried, and its error names the line to add.
//   deno task run read_version --wait
import { defineJob } from "dandori";

export default defineJob({
  description: "Read one file of the project",
  permissions: { read: ["deno.json"], env: ["LANG"] },
  async run({ log }) {
    const config = JSON.parse(await Deno.readTextFile("deno.json"));
    log.info("read deno.json", { lang: Deno.env.get("LANG") ?? null });
    return { imports: Object.keys(config.imports).length };
  },
});
