import { defineJob } from "dandori";

export default defineJob({
  run() {
    retur 1;
  },
});
