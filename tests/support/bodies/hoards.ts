/** Keeps as many MB as its args say, as values of the program (`heap`) or beside them (`buffers`), and says how many when it has them. */
import { defineJob } from "dandori";

const DOUBLES_OF_A_MB = 125_000;

export default defineJob<{ heap?: number; buffers?: number }>({
  run({ args: { heap = 0, buffers = 0 } }) {
    const hoard: unknown[] = [];
    for (let mb = 0; mb < heap; mb++) hoard.push(new Array(DOUBLES_OF_A_MB).fill(mb + 0.5));
    for (let mb = 0; mb < buffers; mb++) hoard.push(new Uint8Array(1_000_000));
    return hoard.length;
  },
});
