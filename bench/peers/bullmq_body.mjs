/** The body of BullMQ's sandboxed processes. Gives the instant of its first line, in ms of the Unix epoch. */
export default function body() {
  return Promise.resolve(performance.timeOrigin + performance.now());
}
