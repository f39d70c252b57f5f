// Server-sent events over fetch: the status code is seen, the stream can be aborted, and the
// caller decides when to come back.

export interface Frame {
  id: string; // of the last frame that had one
  data: string;
}

/** Returns a function that takes the stream's text in chunks cut anywhere and gives the frames that each completes. */
export function frameParser(): (chunk: string) => Frame[] {
  let rest = '';
  let id = '';
  let data: string[] = [];
  return (chunk) => {
    const frames: Frame[] = [];
    // A CR at the end may be half of a CRLF: it waits for what follows. Only the chunk is
    // split, so that a long frame in many chunks costs its length once.
    if (rest.endsWith('\r')) {
      rest = rest.slice(0, -1);
      chunk = '\r' + chunk;
    }
    const lines = chunk.split(/\r\n|\n|\r(?!$)/);
    lines[0] = rest + lines[0];
    rest = lines.pop()!;
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) frames.push({ id, data: data.join('\n') });
        data = [];
        continue;
      }
      const colon = line.indexOf(':');
      if (colon === 0) continue; // a comment: proof of life
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'data') data.push(value);
      else if (field === 'id') id = value;
    }
    return frames;
  };
}

/** Reads a response's body to its end and hands over every frame, batch by batch as they arrive. */
export async function readFrames(body: ReadableStream<Uint8Array>, onChunk: (frames: Frame[]) => void): Promise<void> {
  const parse = frameParser();
  const reader = body.getReader();
  const text = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onChunk(parse(text.decode(value, { stream: true })));
  }
}
