import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { App, Ask, Store } from '../store';
import { textOf } from '../types';
import { clockTime, count, modelName } from '../words';

/** Asks before a regenerate that supersedes something the operator could miss. */
export function AskDialog({ store, app, ask }: { store: Store; app: App; ask: Ask }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [checked, setChecked] = useState(false);
  useLayoutEffect(() => {
    const opener = document.activeElement as HTMLElement | null;
    dialog.current!.showModal();
    return () => queueMicrotask(() => opener?.isConnected && opener.focus());
  }, []);
  const session = store.session();
  const behind = app.server.focus?.messages.filter((m) => m.position > ask.message.position) ?? [];
  const replies = new Set(behind.filter((m) => m.role === 'reply').map((m) => m.run_id)).size;
  const queued = app.server.focus?.pending.length ?? 0;
  const unknown = ask.effects.some((e) => e.state !== 'ended');
  const said = textOf(ask.message.parts);
  return (
    <dialog class="ask" ref={dialog} aria-labelledby="ask-title" aria-describedby="ask-body" onClose={() => store.dismissAsk()}>
      <h2 id="ask-title">{ask.retry ? 'Retry' : 'Regenerate'} from “{said.length > 60 ? `${said.slice(0, 60)}…` : said}”?</h2>
      <div id="ask-body">
        <p>
          Superseded and kept readable: {count(replies, 'reply', 'replies')}
          {ask.later > 0 && `, ${count(ask.later, 'later message')} of yours`}.
        </p>
        {queued > 0 && <p>Stays queued: {count(queued, 'message')}.</p>}
        {ask.effects.length > 0 && (
          <>
            <p>These effects stay in place and may happen again:</p>
            <ul class="effects">
              {ask.effects.map((e) => (
                <li key={e.call_id}>
                  <code>{e.name}</code>
                  <span>{e.state === 'ended' ? 'done' : 'outcome unknown'}</span>
                  <span class="soft">{clockTime(e.started_at, Date.now())}</span>
                </li>
              ))}
            </ul>
          </>
        )}
        <p class="soft">Will use: {modelName(session?.model ?? '')}, current instructions.</p>
      </div>
      {unknown && (
        <label class="check">
          <input type="checkbox" checked={checked} onChange={(e) => setChecked(e.currentTarget.checked)} />I checked, or it may happen twice
        </label>
      )}
      <div class="ask-actions">
        <button type="button" class="button" autofocus onClick={() => store.dismissAsk()}>
          Keep reply
        </button>
        <button type="button" class="button primary" disabled={unknown && !checked} onClick={() => void (ask.retry ? store.retryNow(ask) : store.regenerate(ask.message, ask))}>
          {ask.retry ? 'Retry' : 'Regenerate'}
        </button>
      </div>
    </dialog>
  );
}
