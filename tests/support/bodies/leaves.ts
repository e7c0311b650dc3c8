/** Leaves a process behind in a session of its own, which holds the input of this one open, and spins before it can be told its order. */
import { defineJob } from "dandori";

const { pid } = new Deno.Command("setsid", { args: ["sleep", "60"], stdout: "null", stderr: "null" }).spawn();
console.log(pid);
for (;;);

export default defineJob({ run() {} });
