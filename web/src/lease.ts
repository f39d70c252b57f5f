import { addViewer, newKey, removeViewer } from './api';

const renewal = 30_000; // a lease holds for 150 s

/** Lets a page count as a viewer of its session while it has no stream: a retry that is due then starts. */
export class Lease {
  #viewer = newKey();
  #session = '';
  #timer = 0;

  constructor() {
    window.addEventListener('pagehide', () => this.release());
  }

  /** Resolves when the server has it, or could not be asked. */
  async hold(session: string): Promise<void> {
    this.release();
    this.#session = session;
    const ask = () => addViewer(session, this.#viewer).catch(() => {}); // asked again in time
    this.#timer = window.setInterval(() => void ask(), renewal);
    await ask();
  }

  release(): void {
    clearInterval(this.#timer);
    if (this.#session) removeViewer(this.#session, this.#viewer).catch(() => {}); // it ends by itself
    this.#session = '';
  }
}
