import { Lease } from './lease';
import { readFrames, type Frame } from './sse';

// The page's one event stream: it comes back by itself, goes on after the last event that it
// has seen, and lets go of the connection while nobody looks. Browsers open six connections
// to a server; a stream in each hidden tab would leave none for Stop.

export type Link =
  | { kind: 'connecting' }
  | { kind: 'open' }
  | { kind: 'paused' } // the tab is hidden
  | { kind: 'lost'; since: number; next: number } // times of this machine; next 0: now
  | { kind: 'missing' } // there is no such session
  | { kind: 'signed-out' };

export interface Options {
  onFrames: (frames: Frame[]) => void;
  onLink: (link: Link) => void;
}

const steps = [1_000, 2_000, 5_000, 10_000, 20_000, 30_000];
const hiddenFor = 15_000;
const silence = 50_000; // the server shows life every 15 s

export class EventStream {
  #options: Options;
  #session = '';
  #after = '';
  #tries = 0;
  #lostAt = 0;
  #abort: AbortController | null = null;
  #timer = 0;
  #hideTimer = 0;
  #running = false;
  #lease = new Lease();

  constructor(options: Options) {
    this.#options = options;
    document.addEventListener('visibilitychange', this.#visibility);
    window.addEventListener('online', () => this.retry());
  }

  /** Follows the list and, where it is named, one session, from a snapshot on. */
  follow(session: string): void {
    this.#session = session;
    this.#after = '';
    this.#running = true;
    this.#begin();
  }

  /** Starts again with a snapshot. */
  again(): void {
    if (this.#running) this.follow(this.#session);
  }

  /** Tries at once, where the stream waits for its next try. */
  retry(): void {
    if (this.#running && this.#lostAt > 0) this.#begin();
  }

  stop(): void {
    this.#running = false;
    this.#close();
  }

  #close(): void {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#abort = null;
  }

  #begin(): void {
    this.#close();
    if (document.visibilityState === 'hidden') this.#letGoLater(); // a tab may be hidden from the start
    this.#options.onLink(this.#lostAt > 0 ? { kind: 'lost', since: this.#lostAt, next: 0 } : { kind: 'connecting' });
    void this.#read();
  }

  async #read(): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    const query = new URLSearchParams();
    if (this.#session) query.set('session', this.#session);
    if (this.#after) query.set('after', this.#after);
    const watch = () => {
      clearTimeout(this.#timer);
      this.#timer = window.setTimeout(() => abort.abort(), silence);
    };
    watch();
    try {
      const response = await fetch(`/api/v1/events?${query}`, { headers: { Accept: 'text/event-stream' }, signal: abort.signal, cache: 'no-store' });
      if (this.#abort !== abort) return;
      if (response.status === 401) return this.#end({ kind: 'signed-out' });
      if (response.status === 404 && this.#session) return this.#end({ kind: 'missing' });
      if (response.ok && response.body) {
        this.#tries = 0;
        this.#lostAt = 0;
        this.#lease.release();
        this.#options.onLink({ kind: 'open' });
        await readFrames(response.body, (frames) => {
          if (this.#abort !== abort) return;
          watch();
          const last = frames.findLast((f) => f.id)?.id;
          if (last) this.#after = last;
          if (frames.length > 0) this.#deliver(frames);
        });
      }
    } catch {
      // The connection failed or was silent for too long: as after a clean end, we come back.
    }
    if (this.#abort === abort) this.#lost();
  }

  // What the page cannot draw is its own failure, and none of the connection.
  #deliver(frames: Frame[]): void {
    try {
      this.#options.onFrames(frames);
    } catch (e) {
      reportError(e);
    }
  }

  #end(link: Link): void {
    this.#running = false;
    this.#close();
    this.#options.onLink(link);
  }

  #lost(): void {
    this.#close();
    const now = Date.now();
    this.#lostAt ||= now;
    const step = steps[Math.min(this.#tries++, steps.length - 1)]!;
    const wait = step * (0.8 + 0.4 * Math.random());
    this.#timer = window.setTimeout(() => this.#begin(), wait);
    this.#options.onLink({ kind: 'lost', since: this.#lostAt, next: now + wait });
  }

  #letGoLater(): void {
    clearTimeout(this.#hideTimer);
    this.#hideTimer = window.setTimeout(() => void this.#letGo(), hiddenFor);
  }

  // The lease is there before the stream goes: in between nobody would be watching.
  async #letGo(): Promise<void> {
    if (this.#session) await this.#lease.hold(this.#session);
    if (document.visibilityState !== 'hidden') return this.#lease.release();
    this.#close();
    this.#options.onLink({ kind: 'paused' });
  }

  #visibility = (): void => {
    clearTimeout(this.#hideTimer);
    if (!this.#running) return;
    if (document.visibilityState === 'hidden') {
      this.#letGoLater();
    } else if (!this.#abort) {
      this.#begin();
    }
  };
}
