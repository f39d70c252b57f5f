import { useEffect, useRef, useState } from 'preact/hooks';
import type { App, Store } from '../store';
import { useNow } from './hooks';

/** Tells of the connection between this page and the server, which is not that to a provider. */
export function Banner({ store, app }: { store: Store; app: App }) {
  const link = app.link;
  const lost = link.kind === 'lost';
  const now = useNow(0, lost ? 500 : 0);
  const shown = lost && now - link.since >= 2000;
  const was = useRef(false);
  const [back, setBack] = useState(false);
  useEffect(() => {
    if (shown) was.current = true;
    if (link.kind !== 'open' || !was.current) return;
    was.current = false;
    setBack(true);
    const timer = setTimeout(() => setBack(false), 3000);
    return () => clearTimeout(timer);
  }, [shown, link.kind]);
  if (!shown) return back ? (
      <section class="banner" aria-label="Connection">
        Back. Everything is caught up.
      </section>
    ) : null;
  const seconds = Math.ceil((link.next - now) / 1000);
  return (
    <section class="banner" aria-label="Connection">
      <span>
        {now - link.since > 300_000 ? 'Still offline.' : 'Connection lost.'}{' '}
        <span role="timer" class="number">
          {link.next === 0 || seconds <= 0 ? 'Trying now…' : `Trying again in ${seconds} s.`}
        </span>{' '}
        <span class="banner-calm">The session goes on without you.</span>
      </span>
      <button type="button" class="text" onClick={() => store.reconnect()}>
        Try now
      </button>
    </section>
  );
}
