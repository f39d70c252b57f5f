import { Component, type ComponentChild, type FunctionComponent } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { App, Store } from '../store';

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
    const timer = setInterval(() => setNow(Date.now()), interval);
    return () => clearInterval(timer);
  }, [interval]);
  return now + clock;
}

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
