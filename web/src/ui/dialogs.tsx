import type { App, Dialog, Store } from '../store';
import { turnsOf } from '../view';
import { AskDialog } from './ask';
import { Compare } from './compare';
import { Effects } from './effects';
import { Limit } from './limit';
import { Versions } from './old';
import { Shortcuts } from './shortcuts';

/** What is asked, or shown, before the rest of the page. */
export function Dialogs({ store, app, dialog: d }: { store: Store; app: App; dialog: Dialog }) {
  const session = store.session();
  switch (d.kind) {
    case 'ask':
      return <AskDialog store={store} ask={d} revision={session?.revision ?? 0} />;
    case 'effects':
      return <Effects store={store} app={app} />;
    case 'limit':
      return <Limit store={store} />;
    case 'keys':
      return <Shortcuts store={store} />;
  }
  const turn = app.server.focus && turnsOf(app.server.focus, session).find((t) => t.key === d.message);
  if (!turn) return null;
  if (d.kind === 'versions') return <Versions store={store} app={app} turn={turn} version={d.version} now={Date.now() + app.server.clock} />;
  return turn.versions[d.version - 1] ? <Compare store={store} turn={turn} version={d.version} /> : null;
}
