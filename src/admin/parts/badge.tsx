/** States, by colour and by sign, so that none is told by colour alone. Words are those of the database. */

export type Tone = "good" | "bad" | "warn" | "busy" | "quiet";

const TONES: Record<string, { tone: Tone; sign: string }> = {
  PENDING: { tone: "quiet", sign: "◌" },
  ASSIGNED: { tone: "busy", sign: "◔" },
  RUNNING: { tone: "busy", sign: "▶" },
  SUSPENDED: { tone: "quiet", sign: "⏾" },
  RETRYING: { tone: "warn", sign: "↻" },
  ORPHANED: { tone: "warn", sign: "?" },
  SUCCEEDED: { tone: "good", sign: "✓" },
  FAILED: { tone: "bad", sign: "✕" },
  TIMED_OUT: { tone: "bad", sign: "!" },
  CANCELED: { tone: "quiet", sign: "⊘" },
  SKIPPED: { tone: "quiet", sign: "»" },
  PAUSED: { tone: "warn", sign: "‖" },
  FINISHED: { tone: "good", sign: "✓" },
  // Of slots of a schedule
  expected: { tone: "quiet", sign: "○" },
  planning: { tone: "busy", sign: "…" },
  missed: { tone: "bad", sign: "∅" },
  late: { tone: "warn", sign: "→" },
  DONE: { tone: "good", sign: "✓" },
  TRYING: { tone: "warn", sign: "↻" },
  WAITING: { tone: "quiet", sign: "⏸" },
  LOST: { tone: "warn", sign: "?" },
  GIVEN_BACK: { tone: "quiet", sign: "↩" },
};

/** Of a run, an attempt or a bulk. */
export function State({ state }: { state: string }) {
  const { tone, sign } = toneOf(state);
  return <Badge tone={tone} sign={sign} text={state} />;
}

export function toneOf(state: string): { tone: Tone; sign: string } {
  return TONES[state] ?? { tone: "quiet", sign: "·" };
}

export function Badge({ tone, sign, text }: { tone: Tone; sign?: string; text: string }) {
  return (
    <span class={`badge ${tone}`}>
      {sign && <span class="sign" aria-hidden="true">{sign}</span>}
      {text}
    </span>
  );
}
