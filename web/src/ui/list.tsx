import type { App, Store } from '../store';
import { ended, waits, type Session } from '../types';
import { phase, ordered, rowState, type RowState } from '../view';
import { ago, clockTime, modelName, waitWords } from '../words';
import { useNow } from './hooks';
import { Icon, Mark } from './icons';
import { Link } from './link';

const words: Record<RowState, string> = {
  'needs-you': 'needs you',
  running: 'running',
  queued: 'queued',
  interrupted: 'interrupted',
  failed: 'failed',
  cancelled: 'cancelled',
  waiting: 'waiting',
  idle: '',
};

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

function List({ store, app }: { store: Store; app: App }) {
  const sessions = ordered(app.server);
  const now = useNow(app.server.clock, sessions.some((s) => s.schedule?.state === 'armed') ? 1000 : 20_000);
  const waiting = sessions.filter((s) => waits(s.schedule)).length;
  const current = app.route.name === 'session' ? app.route.id : '';
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
      {sessions.length === 0 ? (
        <p class="rail-empty">{app.server.system ? 'No sessions yet.' : 'Loading…'}</p>
      ) : (
        <ul class="sessions">
          {sessions.map((s) => (
            <Row key={s.id} store={store} app={app} session={s} now={now} current={s.id === current} />
          ))}
        </ul>
      )}
      {app.server.system && (
        <p class="rail-foot">
          {app.server.system.running} running
          {app.server.system.queued > 0 && `, ${app.server.system.queued} queued`}
          {waiting > 0 && (
            <>
              {', '}
              <Link store={store} to="/waiting" class="">
                {waiting} waiting
              </Link>
            </>
          )}{' '}
          · {app.server.system.version}
        </p>
      )}
    </nav>
  );
}

function Row({ store, app, session: s, now, current }: { store: Store; app: App; session: Session; now: number; current: boolean }) {
  const state = rowState(s);
  let text = words[state];
  let icon = state;
  if (state === 'running') {
    const p = current ? phase(app.server.focus, s, now) : null;
    if (s.last_run?.cancel_requested) text = 'stopping…';
    else if (p?.kind === 'waiting') [text, icon] = ['waiting', 'waiting'];
    else if (p?.kind === 'holding') text = 'holding';
  }
  if (state === 'waiting') text = waitWords(s.schedule!, now);
  const past = text && !['running', 'queued', 'waiting'].includes(state);
  const at = s.last_run && ended(s.last_run) ? (s.last_run.ended_at ?? s.updated_at) : s.updated_at;
  const title = s.title || 'New session';
  return (
    <li>
      <Link store={store} to={`/s/${s.id}`} class={`row state-${icon}`} aria-current={current ? 'page' : undefined}>
        <Icon name={icon} />
        <span class="row-title">{title}</span>
        <span class="row-note">
          {text && <span class="row-state">{text} · </span>}
          {past ? clockTime(at, now) : text ? modelName(s.model) : `${ago(at, now)} · ${modelName(s.model)}`}
        </span>
      </Link>
    </li>
  );
}
