/** A monotonic clock of the test's own: what is measured moves when the test says so, and not by itself. Timers go on as ever. */
export interface TestClock {
  ms: number;
}

export async function withClock<T>(test: (clock: TestClock) => Promise<T>): Promise<T> {
  const clock: TestClock = { ms: 1_000_000 };
  performance.now = () => clock.ms;
  try {
    return await test(clock);
  } finally {
    delete (performance as Partial<Performance>).now; // that of the prototype is seen again
  }
}
