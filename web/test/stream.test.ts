import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Frame } from '../src/sse';
import { EventStream, type Link } from '../src/stream';

let requests: { url: string; signal: AbortSignal; answer: (r: Response) => void; fail: () => void }[];
let links: Link[];
let frames: Frame[];
let stream: EventStream;
let hidden = false;
let leases: string[];
let leaseAnswer: Promise<Response>;

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, 'random').mockReturnValue(0.5); // no jitter
  vi.spyOn(document, 'visibilityState', 'get').mockImplementation(() => (hidden ? 'hidden' : 'visible'));
  requests = [];
  links = [];
  frames = [];
  hidden = false;
  leaseAnswer = Promise.resolve(new Response(null, { status: 204 }));
  leases = [];
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    if (!url.startsWith('/api/v1/events')) {
      leases.push(`${init.method} ${url.replace(/[0-9a-f]{32}/, 'VIEWER')}`);
      return leaseAnswer;
    }
    return new Promise<Response>((answer, reject) => {
      const fail = () => reject(new TypeError('network'));
      init.signal!.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')));
      requests.push({ url, signal: init.signal!, answer, fail });
    });
  });
  stream = new EventStream({ onFrames: (f) => frames.push(...f), onLink: (l) => links.push(l) });
});

afterEach(() => {
  stream.stop();
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const show = (visible: boolean) => {
  hidden = !visible;
  document.dispatchEvent(new Event('visibilitychange'));
};

/** Answers the last request with a stream, and returns what writes to it and ends it. */
async function accept() {
  let control!: ReadableStreamDefaultController<Uint8Array>;
  const body = new ReadableStream<Uint8Array>({ start: (c) => void (control = c) });
  requests.at(-1)!.answer(new Response(body, { status: 200 }));
  await pass(0);
  return {
    write: async (text: string) => (control.enqueue(new TextEncoder().encode(text)), await pass(0)),
    end: async () => (control.close(), await pass(0)),
  };
}

test('comes back after the last event that it has seen', async () => {
  stream.follow('ses_1');
  expect(requests[0]!.url).toBe('/api/v1/events?session=ses_1');
  const s = await accept();
  await s.write('id: i.7\ndata: {}\n\n');
  expect(frames).toEqual([{ id: 'i.7', data: '{}' }]);
  await s.end();
  expect(links.at(-1)).toMatchObject({ kind: 'lost' });
  await pass(1000);
  expect(requests[1]!.url).toBe('/api/v1/events?session=ses_1&after=i.7');
  await accept();
  expect(links.at(-1)).toEqual({ kind: 'open' });
});

test('waits longer each time, and not at all when asked', async () => {
  stream.follow('');
  for (const [n, wait] of [1000, 2000, 5000, 10_000, 20_000, 30_000, 30_000].entries()) {
    requests[n]!.fail();
    await pass(wait - 1);
    expect(requests.length).toBe(n + 1);
    await pass(1);
    expect(requests.length).toBe(n + 2);
  }
  requests.at(-1)!.fail();
  await pass(0);
  stream.retry();
  expect(requests.length).toBe(9);
});

test.each([
  [401, 'signed-out'],
  [404, 'missing'],
])('%i ends it as %s', async (status, kind) => {
  stream.follow('ses_1');
  requests[0]!.answer(new Response(null, { status }));
  await pass(60_000);
  expect(links.at(-1)).toEqual({ kind });
  expect(requests.length).toBe(1);
});

test('silence is a lost connection, a comment is a sign of life', async () => {
  stream.follow('');
  const s = await accept();
  await pass(40_000);
  await s.write(': alive\n\n');
  await pass(40_000);
  expect(links.at(-1)).toEqual({ kind: 'open' });
  expect(requests[0]!.signal.aborted).toBe(false);
  await pass(10_000);
  expect(requests[0]!.signal.aborted).toBe(true);
});

test('a hidden tab lets go after 15 s, and catches up when it is shown', async () => {
  stream.follow('ses_1');
  const s = await accept();
  await s.write('id: i.1\ndata: {}\n\n');
  show(false);
  await pass(14_999);
  expect(requests[0]!.signal.aborted).toBe(false);
  await pass(1);
  expect(requests[0]!.signal.aborted).toBe(true);
  expect(links.at(-1)).toEqual({ kind: 'paused' });
  await pass(600_000);
  expect(requests.length).toBe(1);
  show(true);
  expect(requests[1]!.url).toBe('/api/v1/events?session=ses_1&after=i.1');
});

test('a tab that was never shown lets go as well, also of a stream that came back', async () => {
  hidden = true;
  stream.follow('ses_1');
  const s = await accept();
  await pass(10_000);
  await s.end();
  await pass(1000);
  await accept();
  await pass(15_000);
  expect(requests.length).toBe(2);
  expect(requests[1]!.signal.aborted).toBe(true);
  expect(links.at(-1)).toEqual({ kind: 'paused' });
});

test('a hidden tab counts as a viewer: before it lets go, every 30 s, and until it has a stream again', async () => {
  const post = 'POST /api/v1/sessions/ses_1/viewers';
  const drop = 'DELETE /api/v1/sessions/ses_1/viewers/VIEWER';
  let taken!: (r: Response) => void;
  leaseAnswer = new Promise((done) => (taken = done));
  stream.follow('ses_1');
  await accept();
  show(false);
  await pass(15_000);
  expect(leases).toEqual([post]);
  expect(requests[0]!.signal.aborted).toBe(false);
  taken(new Response(null, { status: 204 }));
  leaseAnswer = Promise.resolve(new Response(null, { status: 204 }));
  await pass(0);
  expect(requests[0]!.signal.aborted).toBe(true);
  await pass(60_000);
  expect(leases).toEqual([post, post, post]);
  show(true);
  expect(leases.length).toBe(3);
  await accept();
  expect(leases).toEqual([post, post, post, drop]);
  await pass(60_000);
  expect(leases.length).toBe(4);
});

test('a page that is left while it is hidden gives its lease back', async () => {
  stream.follow('ses_1');
  await accept();
  show(false);
  await pass(15_000);
  window.dispatchEvent(new Event('pagehide'));
  expect(leases.at(-1)).toBe('DELETE /api/v1/sessions/ses_1/viewers/VIEWER');
});

test('a tab that is hidden for a moment keeps its stream', async () => {
  stream.follow('');
  await accept();
  show(false);
  await pass(10_000);
  show(true);
  await pass(10_000);
  expect(requests.length).toBe(1);
});

test('another session begins with a snapshot, and the old stream says nothing more', async () => {
  stream.follow('ses_1');
  const s = await accept();
  await s.write('id: i.1\ndata: {}\n\n');
  stream.follow('ses_2');
  expect(requests[1]!.url).toBe('/api/v1/events?session=ses_2');
  await s.write('id: i.2\ndata: {}\n\n');
  expect(frames.length).toBe(1);
});
