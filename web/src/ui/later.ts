import { useEffect, useState } from 'preact/hooks';

/** A part of the page that is loaded behind the first paint. */
export class Later<M> {
  module: M | null = null;
  #load: () => Promise<M>;
  #coming: Promise<M> | null = null;

  constructor(load: () => Promise<M>) {
    this.#load = load;
  }

  /** Loads it, once; what failed is tried again. */
  get(): Promise<M> {
    this.#coming ??= this.#load().then(
      (m) => (this.module = m),
      (e: unknown) => {
        this.#coming = null;
        throw e;
      },
    );
    return this.#coming;
  }
}

export const late = new Later(() => import('../late'));
export const prose = new Later(() => import('../prose'));

/** Loads what the first paint does without: what text is drawn with, then what may be asked for. */
export async function loadRest(failed: () => void): Promise<void> {
  await prose.get().catch(failed);
  await late.get().catch(() => {}); // who wants it tries again, and tells
}

/** The part, null until it is there; it is loaded once it is wanted. */
export function useLater<M>(part: Later<M>, wanted: boolean, failed: () => void): M | null {
  const [there, setThere] = useState(part.module);
  useEffect(() => {
    if (wanted && !there) part.get().then(setThere, failed);
  }, [wanted, there]);
  return there;
}
