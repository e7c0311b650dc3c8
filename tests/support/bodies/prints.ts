/** Writes a lot, or strange things. */
import { defineJob } from "dandori";

export default defineJob({
  run({ args, log }) {
    const bytes = (text: string) => new TextEncoder().encode(text);
    switch (args) {
      case "100 MB": {
        const block = bytes(`${"x".repeat(999)}\n`.repeat(1_000));
        for (let mb = 0; mb < 100; mb++) Deno.stdout.writeSync(block);
        return "printed it all";
      }
      case "3 MB": {
        for (let line = 0; line < 3_000; line++) console.log(`${line} ${"x".repeat(1_000)}`);
        return "printed";
      }
      case "many lines":
        for (let line = 0; line < 20_000; line++) console.log(line);
        return "printed";
      case "strange": {
        console.log("\x1b[31mred\x1b[0m \x07bell\ttab\x1b]0;title\x07");
        Deno.stdout.writeSync(new Uint8Array([0x66, 0xff, 0x6f, 0x0a]));
        console.log("é".repeat(10_000));
        console.log("\x1e0123456789abcdef.{}\x1e\x1e");
        log.info("\x1b[1mbold", { large: "y".repeat(20_000) });
        Deno.stderr.writeSync(bytes("no newline at the end"));
        return "printed";
      }
    }
  },
});
