import { useState } from 'preact/hooks';
import * as api from '../api';
import { need, stateWords } from '../list';
import type { App, Store } from '../store';
import { ended, waits, type Session } from '../types';
import { phase, rowState } from '../view';
import { ago, clockTime, modelName } from '../words';
import { memo, useLate } from './hooks';
import { Icon } from './icons';
import { Link } from './link';
import { Menu, type Item } from './menu';

interface Props {
  store: Store;
  app: App;
  session: Session;
  now: number;
  current: boolean;
}

/** One session in the list: a link, and a menu of what else can be done with it. It is drawn again when it differs, not with every delta. */
export const Row = memo<Props>(
  DrawRow,
  (a, b) => a.session === b.session && a.now === b.now && a.current === b.current && (!a.current || a.app.server.focus === b.app.server.focus),
);

function DrawRow({ store, app, session: s, now, current }: Props) {
  const state = rowState(s);
  let text = stateWords(s, state, now);
  let icon = state;
  if (state === 'running' && current && !s.last_run?.cancel_requested) {
    const p = phase(app.server.focus, s, now);
    if (p.kind === 'waiting') [text, icon] = ['waiting', 'waiting'];
    else if (p.kind === 'holding') text = 'holding';
  }
  const at = s.last_run && ended(s.last_run) ? (s.last_run.ended_at ?? s.updated_at) : s.updated_at;
  return (
    <li class="row-item">
      <Link store={store} to={`/s/${s.id}`} class={`row state-${icon}`} aria-current={current ? 'page' : undefined}>
        <Icon name={icon} />
        <span class="row-title">{s.title || 'New session'}</span>
        <span class="row-note">
          {text ? <span class="row-state">{text} · </span> : `${ago(at, now)} · `}
          {state === 'needs-you' ? need(s) : ['interrupted', 'failed', 'cancelled'].includes(state) ? clockTime(at, now) : modelName(s.model)}
        </span>
      </Link>
      <RowMenu store={store} session={s} />
    </li>
  );
}

function RowMenu({ store, session: s }: { store: Store; session: Session }) {
  const [renaming, setRenaming] = useState(false);
  const late = useLate(store, renaming);
  const told = (e: Error) => store.failed(e.message);
  const items: Item[] = [
    { text: 'Rename', act: () => setRenaming(true) },
    { text: 'Archive', act: () => void api.patchSession(s.id, { archived: true }).catch(told) },
  ];
  if (waits(s.schedule)) items.unshift({ text: 'Cancel retry', act: () => void api.cancelRetry(s.id, s.schedule!.token).catch(told) });
  return (
    <>
      <Menu label={`More for ${s.title || 'New session'}`} class="row-more" items={items}>
        <Icon name="more" />
      </Menu>
      {renaming && late && <late.Rename store={store} session={s} onClose={() => setRenaming(false)} />}
    </>
  );
}
