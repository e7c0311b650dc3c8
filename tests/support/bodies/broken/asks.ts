import { defineJob } from "dandori";

const token = Deno.env.get("CANARY_SECRET");

export default defineJob({ run: () => token });
