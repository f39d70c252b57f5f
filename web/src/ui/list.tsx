import { useMemo, useState } from 'preact/hooks';
import { filters, shows, tally, type Filter } from '../list';
import type { App, Store } from '../store';
import { waits } from '../types';
import { ordered } from '../view';
import { useNow } from './hooks';
import { Icon, Mark } from './icons';
import { Link } from './link';
import { Row } from './row';

/** The list of sessions. On a phone it is a screen of its own. */
export function SessionList({ store, app, alone }: { store: Store; app: App; alone: boolean }) {
  if (!alone) return <List store={store} app={app} />;
  return (
    <main class="alone">
      <h1 class="hidden">Sessions</h1>
      <List store={store} app={app} />
    </main>
  );
}

let chosen: Filter = 'all'; // also when a phone comes back to the list

function List({ store, app }: { store: Store; app: App }) {
  const [filter, setFilter] = useState(chosen);
  const sessions = useMemo(() => ordered(app.server), [app.server.sessions]);
  const now = useNow(app.server.clock, sessions.some((s) => s.schedule?.state === 'armed') ? 1000 : 20_000);
  const counts = useMemo(() => tally(sessions), [sessions]);
  const waiting = sessions.filter((s) => waits(s.schedule)).length;
  const shown = sessions.filter((s) => shows(filter, s));
  const current = app.route.name === 'session' ? app.route.id : '';
  const system = app.server.system;
  const choose = (f: Filter) => {
    chosen = f;
    setFilter(f);
  };
  return (
    <nav class="rail" aria-label="Sessions">
      <div class="rail-head">
        <Link store={store} to="/" class="brand">
          <Mark />
          Reprise
        </Link>
        <Link store={store} to="/new" class="button quiet">
          <Icon name="plus" />
          New
        </Link>
      </div>
      {sessions.length > 0 && (
        <div class="filters" role="group" aria-label="Show">
          {filters.map((f) => (
            <button key={f.filter} type="button" aria-pressed={filter === f.filter} onClick={() => choose(f.filter)}>
              {f.name} <span class="number">{counts[f.filter]}</span>
            </button>
          ))}
        </div>
      )}
      {shown.length === 0 ? (
        <p class="rail-empty">{system ? filters.find((f) => f.filter === (sessions.length ? filter : 'all'))!.none : 'Loading…'}</p>
      ) : (
        <ul class="sessions">
          {shown.map((s) => (
            <Row key={s.id} store={store} app={app} session={s} now={now} current={s.id === current} />
          ))}
        </ul>
      )}
      <div class="rail-foot">
        {system && (
          <p>
            {system.running} running
            {system.queued > 0 && `, ${system.queued} queued`} · {system.version}
          </p>
        )}
        <p class="rail-links">
          <Link store={store} to="/waiting" class="">
            {waiting > 0 ? `${waiting} waiting` : 'Waiting'}
          </Link>
          <Link store={store} to="/archived" class="">
            Archived
          </Link>
          <Link store={store} to="/gateway" class="">
            Gateway
          </Link>
          <Link store={store} to="/settings" class="">
            Settings
          </Link>
        </p>
      </div>
    </nav>
  );
}
