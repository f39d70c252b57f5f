import { useState } from 'preact/hooks';
import { newKey } from '../api';
import type { App, Store } from '../store';
import { ordered } from '../view';
import { Composer } from './composer';
import { Refused } from './conversation';
import { Icon, Mark } from './icons';
import { Link } from './link';
import { rehearsals } from './models';

/** A new session; on a first visit, what there is to see. */
export function NewSession({ store, app }: { store: Store; app: App }) {
  const models = app.models?.models ?? [];
  const [model, setModel] = useState('');
  const [starting, setStarting] = useState('');
  const rehearsed = !!app.server.system?.rehearsal;
  const first = ordered(app.server).length === 0;
  const tour = rehearsed || first ? rehearsals(models) : [];
  const rehearse = async (name: string, title: string) => {
    if (starting) return;
    setStarting(name);
    await store.send(`Rehearse: ${title[0]!.toLowerCase()}${title.slice(1)}.`, newKey(), name);
    setStarting('');
  };
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
          {tour.length > 0 && (
            <section class="tour" aria-labelledby="tour-title">
              <h2 id="tour-title">See a retry happen</h2>
              <ul>
                {tour.map((r) => (
                  <li key={r.model}>
                    <button type="button" disabled={starting !== ''} onClick={() => void rehearse(r.model, r.title)}>
                      <span class="tour-name">{r.title}</span>
                      <span class="tour-shows">{starting === r.model ? 'Starting…' : r.shows}</span>
                    </button>
                  </li>
                ))}
              </ul>
            </section>
          )}
        </div>
      </div>
    </>
  );
}

// What the server takes where no model is named: the first chain, else the first model.
function firstModel(app: App): string {
  return app.models?.chains[0]?.name ?? app.models?.models[0]?.name ?? '';
}
