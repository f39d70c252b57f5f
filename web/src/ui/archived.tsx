import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import type { App, Store } from '../store';
import type { Session } from '../types';
import { clockTime } from '../words';
import { Head } from './head';
import { useNow } from './hooks';
import { Link } from './link';
import { Restore } from './restore';

/** The sessions that were put aside. */
export function Archived({ store, app }: { store: Store; app: App }) {
  const now = useNow(app.server.clock, 60_000);
  const [list, setList] = useState<Session[] | null>(null);
  useEffect(() => {
    api.listArchived().then(
      (all) => setList(all.sessions),
      (e: Error) => store.failed(e.message),
    );
  }, []);
  // What the stream has told since then is newer than the list.
  const { sessions } = app.server;
  const known = new Map([...(list ?? []), ...Object.values(sessions)].map((s) => [s.id, s]));
  const rows = [...known.values()].filter((s) => s.archived).sort((a, b) => b.updated_at - a.updated_at);
  return (
    <>
      <Head store={store} title="Archived" />
      {app.error && <p class="refused">{app.error}</p>}
      {list && rows.length === 0 && <p class="log-note">Nothing is archived. What you archive is kept here, and nothing of it starts by itself.</p>}
      <ul class="waiting">
        {rows.map((s) => (
          <li key={s.id} class="archived-item">
            <Link store={store} to={`/s/${s.id}`} class="row">
              <span class="row-title">{s.title || 'New session'}</span>
              <span class="row-note">archived {clockTime(s.updated_at, now)}</span>
            </Link>
            <Restore store={store} session={s} />
          </li>
        ))}
      </ul>
    </>
  );
}
