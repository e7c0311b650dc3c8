// Stands in for the service that talks to the devices. Files that begin with `_` are no jobs; jobs share them.

export type Answer = { status: 200 } | { status: 422; why: string } | { status: 503; retryAfterSeconds: number };

const COMMANDS = ["lock", "report", "sync"];

/** Busy for a moment with each `sync`; refuses what it does not know. */
export function send({ command }: { device: number; command: string }, attempt: number): Answer {
  if (!COMMANDS.includes(command)) return { status: 422, why: `no device knows "${command}"` };
  return command === "sync" && attempt === 1 ? { status: 503, retryAfterSeconds: 0.5 } : { status: 200 };
}
