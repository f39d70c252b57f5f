import { Component, type ComponentChild, type FunctionComponent } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { device, onDevice, type Device } from '../device';
import type { App, Store } from '../store';
import { late, prose, useLater } from './later';

/** The store's state; the component draws again with every repaint of the store. */
export function useApp(store: Store): App {
  const [app, setApp] = useState(store.app);
  useEffect(() => {
    setApp(store.app);
    return store.subscribe(() => setApp(store.app));
  }, [store]);
  return app;
}

/** The server's time, kept fresh every interval milliseconds; 0: not kept fresh. */
export function useNow(clock: number, interval: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    setNow(Date.now());
    if (interval === 0) return;
    const look = () => document.hidden || setNow(Date.now());
    const timer = setInterval(look, interval);
    document.addEventListener('visibilitychange', look);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }, [interval]);
  return now + clock;
}

/** The server's time, kept fresh at every whole step before a time, while the page is looked at. */
export function useCountdown(clock: number, until: number, step: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    let timer = 0;
    const look = () => {
      clearTimeout(timer);
      const t = Date.now();
      const left = until - clock - t;
      setNow(t);
      if (left > 0 && !document.hidden) timer = window.setTimeout(look, left % step || step);
    };
    look();
    document.addEventListener('visibilitychange', look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }, [clock, until, step]);
  return now + clock;
}

export const notLoaded = 'A part of the page could not be loaded. Reload the page.';

/** What is drawn rarely; null until it is loaded. */
export const useLate = (store: Store, wanted: boolean) => useLater(late, wanted, () => store.failed(notLoaded));

/** What draws the text of replies; null until it is loaded, which the page's root sees to. */
export const useProse = () => useLater(prose, true, () => {});

/** The settings of this device. */
export function useDevice(): Device {
  const [now, setNow] = useState(device);
  useEffect(() => {
    setNow(device());
    return onDevice(() => setNow(device()));
  }, []);
  return now;
}

/** Handles a click, but not the second of a double one: that was aimed at what stood there before. */
export const once = (f: () => unknown) => (e: MouseEvent): void => {
  if (e.detail < 2) f();
};

/** Draws a component again only where same says that its properties differ. */
export function memo<P extends object>(draw: FunctionComponent<P>, same: (a: P, b: P) => boolean): new (props: P) => Component<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      return !same(this.props, next);
    }
    override render(): ComponentChild {
      const Draw = draw;
      return Draw(this.props);
    }
  };
}

export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const change = () => setMatches(list.matches);
    list.addEventListener('change', change);
    return () => list.removeEventListener('change', change);
  }, [query]);
  return matches;
}

const drafts = 'reprise.draft.';

/** The unsent text of a session, kept on this device across reloads. */
export function useDraft(id: string): [string, (text: string) => void] {
  const [draft, setDraft] = useState(() => ({ id, text: load(id) }));
  const current = useRef(draft);
  if (current.current.id !== id) current.current = { id, text: load(id) };
  const set = (text: string) => {
    current.current = { id, text };
    setDraft(current.current);
    try {
      if (text) localStorage.setItem(drafts + id, text);
      else localStorage.removeItem(drafts + id);
    } catch {
      // Storage that is full or forbidden costs the draft at a reload, nothing else.
    }
  };
  return [current.current.text, set];
}

function load(id: string): string {
  try {
    return localStorage.getItem(drafts + id) ?? '';
  } catch {
    return '';
  }
}

/** The conversation: where the focus goes when what had it is gone. */
export const log = () => document.querySelector<HTMLElement>('[role=log]');
