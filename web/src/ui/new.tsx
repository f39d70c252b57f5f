import { useState } from 'preact/hooks';
import type { App, Store } from '../store';
import { ordered } from '../view';
import { Composer } from './composer';
import { Refused } from './conversation';
import { useLate } from './hooks';
import { Icon, Mark } from './icons';
import { Link } from './link';

/** A new session; on a first visit, what there is to see. */
export function NewSession({ store, app }: { store: Store; app: App }) {
  const [model, setModel] = useState('');
  const rehearsed = !!app.server.system?.rehearsal;
  const first = ordered(app.server).length === 0;
  const late = useLate(store, rehearsed || first);
  return (
    <>
      <header class="head head-new">
        <Link store={store} to="/" class="back" aria-label="All sessions">
          <Icon name="back" />
        </Link>
      </header>
      <div class="new">
        <div class="new-column">
          <h1>
            <Mark />
            New session
          </h1>
          {rehearsed && <p class="lead">No provider key is configured yet, so replies are rehearsed: real requests, real failures, no cost.</p>}
          {app.error && <Refused store={store} text={app.error} />}
          <Composer store={store} app={app} id="new" model={model || firstModel(app)} onModel={setModel} />
          {late && (rehearsed || first) && <late.Tour store={store} models={app.models?.models ?? []} />}
        </div>
      </div>
    </>
  );
}

// What the server takes where no model is named: the first chain, else the first model.
function firstModel(app: App): string {
  return app.models?.chains[0]?.name ?? app.models?.models[0]?.name ?? '';
}
