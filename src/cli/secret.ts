/** A secret from whoever gives a command: typed without being shown, or the first line of what is piped in. */
import { CommandError, EXIT } from "../app/output.ts";

const LONGEST = 4_096;

export async function readSecret(prompt: string): Promise<string> {
  return Deno.stdin.isTerminal() ? typed(prompt) : await piped();
}

/** With the terminal's echo off, so keys that edit are ours to see to. */
function typed(prompt: string): string {
  const show = (text: string) => Deno.stderr.writeSync(new TextEncoder().encode(text));
  const bytes: number[] = [];
  const one = new Uint8Array(1);
  show(prompt);
  Deno.stdin.setRaw(true);
  try {
    while (Deno.stdin.readSync(one)) {
      const [byte = 0] = one;
      if (byte === 3) throw new CommandError("Interrupted: nothing was changed");
      if (byte === 10 || byte === 13 || byte === 4) break;
      if (byte === 8 || byte === 127) removeLetter(bytes);
      else if (byte === 21) bytes.length = 0;
      else bytes.push(byte);
    }
  } finally {
    Deno.stdin.setRaw(false);
    show("\r\n");
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

/** Of UTF-8: its last byte, and those before it that belong to the same letter. */
function removeLetter(bytes: number[]): void {
  while (((bytes.pop() ?? 0) & 0xc0) === 0x80);
}

async function piped(): Promise<string> {
  let text = "";
  for await (const part of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (text.includes("\n") || text.length > LONGEST) break;
  }
  const [line = ""] = text.split(/\r?\n/);
  if (line) return line;
  throw new CommandError(
    "Cannot read a password: stdin is empty; give the password on stdin, or use --generate",
    EXIT.usage,
  );
}
