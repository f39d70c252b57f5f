import { useEffect, useState } from 'preact/hooks';
import type { Ask, Store } from '../store';
import { textOf } from '../types';
import { clockTime, count, modelName } from '../words';
import { Dialog } from './dialog';
import { callTarget } from './call';
import { excerpt } from './old';

/** Asks before a regenerate that supersedes something the operator could miss. */
export function AskDialog({ store, ask, revision }: { store: Store; ask: Ask; revision: number }) {
  const { preview: p, retry } = ask;
  const unknown = p.effects.filter((e) => e.state !== 'ended').map((e) => `${e.run_id}/${e.call_id}`).join(' ');
  const [ticked, setTicked] = useState(''); // which effects: a tick is good for no others
  const ready = ticked === unknown;
  // The session moved on: what is asked must be what would happen.
  useEffect(() => {
    if (revision > p.revision) store.refreshAsk(ask);
  }, [revision, p.revision]);
  const verb = retry ? 'Retry' : 'Regenerate';
  return (
    <Dialog onClose={() => store.closeDialog()} class="ask" title={`${verb} from “${excerpt(textOf(ask.message.parts))}”?`} describedBy="ask-body" closes={false}>
      {ask.moved && (
        <p class="ask-moved" role="status">
          The session has changed meanwhile. This is what it would be now.
        </p>
      )}
      <div id="ask-body">
        <dl class="ask-counts">
          <div>
            <dt>Superseded and kept readable</dt>
            <dd>
              {p.replies + p.later === 0
                ? 'nothing'
                : [p.replies > 0 && count(p.replies, 'reply', 'replies'), p.later > 0 && `${count(p.later, 'later message')} of yours`].filter(Boolean).join(' · ')}
            </dd>
          </div>
          {p.pending > 0 && (
            <div>
              <dt>Stays queued</dt>
              <dd>{count(p.pending, 'message')}</dd>
            </div>
          )}
        </dl>
        {p.effects.length > 0 && (
          <>
            <p>These effects stay in place and may happen again:</p>
            <ul class="effects">
              {p.effects.map((e) => (
                <li key={`${e.run_id}/${e.call_id}`}>
                  <code>{e.name}</code>
                  <span class="effect-target">{callTarget(e.arguments)}</span>
                  <span class={e.state === 'ended' ? '' : 'effect-unknown'}>{e.state === 'ended' ? 'done' : 'outcome unknown'}</span>
                  <span class="soft number">{clockTime(e.started_at, Date.now())}</span>
                </li>
              ))}
            </ul>
          </>
        )}
        <p class="soft">Will use: {modelName(p.model)}, current instructions.</p>
      </div>
      {unknown && (
        <label class="check">
          <input type="checkbox" checked={ready} onChange={(e) => setTicked(e.currentTarget.checked ? unknown : '')} />I checked, or it may happen twice
        </label>
      )}
      <div class="ask-actions">
        <button type="button" class="button" autofocus onClick={() => store.closeDialog()}>
          Keep reply
        </button>
        <button type="button" class="button primary" disabled={!ready} onClick={() => void store.confirm(ask)}>
          {verb}
        </button>
      </div>
    </Dialog>
  );
}
