/** A stream of bytes as lines of text. */
export async function* linesOf(bytes: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of bytes.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() as string;
    yield* lines;
  }
}
