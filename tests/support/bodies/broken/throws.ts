import { defineJob } from "dandori";

function setUp(): void {
  throw new RangeError("no set-up here");
}
setUp();

export default defineJob({ run() {} });
