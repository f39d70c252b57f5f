import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import type { App, Store } from '../store';
import { waits, type Schedule } from '../types';
import { className, clockTime, waitWords } from '../words';
import { Head } from './head';
import { useNow } from './hooks';
import { Icon } from './icons';
import { Link } from './link';

const isHeld = (s: Schedule): boolean => s.state === 'held' && s.hold_reason !== 'offline';

/** Every session whose retry waits: those that wait for a look, then the next to start. */
export function Waiting({ store, app }: { store: Store; app: App }) {
  const now = useNow(app.server.clock, 1000);
  const { sessions } = app.server;
  // The stream tells of the sessions that changed last, and of every change from now on.
  const [older, setOlder] = useState<Schedule[]>([]);
  useEffect(() => {
    api.listWaiting().then(
      (all) => setOlder(all.waiting),
      (e: Error) => store.failed(e.message),
    );
  }, []);
  const known = Object.values(sessions).flatMap((s) => (s.schedule && !s.archived ? [s.schedule] : []));
  const rows = [...known, ...older.filter((s) => !sessions[s.session_id])]
    .filter(waits)
    .sort((a, b) => Number(isHeld(b)) - Number(isHeld(a)) || (a.next_at ?? 0) - (b.next_at ?? 0));
  return (
    <>
      <Head store={store} title="Waiting" />
      {app.error && <p class="refused">{app.error}</p>}
      {rows.length === 0 && <p class="log-note">No retry waits. One that will start by itself is listed here.</p>}
      <ul class="waiting">
        {rows.map((s) => (
          <li key={s.session_id}>
            <Link store={store} to={`/s/${s.session_id}`} class={`row state-${isHeld(s) ? 'needs-you' : 'waiting'}`}>
              <Icon name={isHeld(s) ? 'needs-you' : 'waiting'} />
              <span class="row-title">{sessions[s.session_id]?.title || s.session_id}</span>
              <span class="row-note number">
                <span class="row-state">{isHeld(s) ? (s.hold_reason === 'asks' ? 'ready, starts when you try now' : 'ready, waits for you to look') : waitWords(s, now)}</span>
                {s.state === 'armed' && ` · at ${clockTime(s.next_at!, now)}`} · {className(s.retry_class)} · attempt {s.attempt + 1}
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}
