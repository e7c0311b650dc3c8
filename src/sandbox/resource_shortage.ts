/** What a machine can run out of, as its system says so: no fault of what was to be run, and the same for whatever is run next. */

const OF_THE_MACHINE = new Set(["ENOSPC", "EDQUOT", "EROFS", "EIO", "EMFILE", "ENFILE", "ENOMEM", "EAGAIN"]);

/** The system's words, when the error or what caused it says that the machine lacks something. */
export function shortageOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code } = error as { code?: unknown };
  return typeof code === "string" && OF_THE_MACHINE.has(code) ? error.message : shortageOf(error.cause);
}
