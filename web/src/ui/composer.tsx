import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { newKey } from '../api';
import type { App, Store } from '../store';
import { ended, waits } from '../types';
import { useDevice, useDraft, useMedia } from './hooks';
import { Icon } from './icons';
import { ModelPicker } from './models';

interface Props {
  store: Store;
  app: App;
  id: string; // of the session, or "new"
  model: string;
  onModel: (model: string) => void;
}

/** Where the operator writes. The draft stays until the server has taken it. */
export function Composer({ store, app, id, model, onModel }: Props) {
  const [text, setText] = useDraft(id);
  const [sending, setSending] = useState(false);
  const box = useRef<HTMLTextAreaElement>(null);
  const key = useRef({ text: '', value: '' });
  const finePointer = useMedia('(pointer: fine)');
  const { enter } = useDevice();
  const enterSends = enter === 'auto' ? finePointer : enter === 'send';
  const session = app.server.sessions[id];
  const run = session?.last_run;
  const active = !!run && !ended(run);
  const stopping = active && (!!run.cancel_requested || !!app.stopping[run.id]);
  const offline = app.link.kind === 'lost';
  const empty = text.trim() === '';

  useLayoutEffect(() => {
    const t = box.current!;
    t.style.height = 'auto';
    t.style.height = `${t.scrollHeight}px`;
  }, [text, id]);
  useEffect(() => {
    if (finePointer) box.current!.focus({ preventScroll: true });
  }, [id]);

  const send = async () => {
    if (empty || sending || offline) return;
    // The same text keeps its key until it is delivered: a repeat after a lost answer posts once.
    if (key.current.text !== text) key.current = { text, value: newKey() };
    setSending(true);
    const taken = await store.send(text, key.current.value, model);
    setSending(false);
    if (!taken) return;
    key.current = { text: '', value: '' };
    // What was typed meanwhile is the next draft.
    if (!box.current || box.current.value === text) setText('');
  };
  const press = (e: KeyboardEvent) => {
    if (e.key !== 'Enter' || e.isComposing) return;
    if (e.ctrlKey || e.metaKey || (enterSends && !e.shiftKey)) {
      e.preventDefault();
      void send();
    }
  };

  const queues = active || (session?.paused && (app.server.focus?.pending.length ?? 0) > 0);
  return (
    <form
      class="composer"
      onSubmit={(e) => {
        e.preventDefault();
        void send();
      }}
    >
      <label class="hidden" for="composer">
        Message
      </label>
      <textarea
        id="composer"
        ref={box}
        rows={1}
        value={text}
        placeholder={queues ? 'Write the next message' : 'Write a message'}
        aria-describedby={offline ? 'composer-note' : undefined}
        onInput={(e) => setText(e.currentTarget.value)}
        onKeyDown={press}
      />
      <div class="composer-bar">
        <ModelPicker app={app} model={model} disabled={active} onModel={onModel} />
        <span class="composer-note" id="composer-note">
          {offline ? 'No connection. Your draft is kept.' : finePointer && !empty ? (enterSends ? 'Enter sends, Shift+Enter breaks the line' : 'Ctrl+Enter sends') : ''}
        </span>
        {active && (
          <button type="button" class="button stop" onClick={() => void store.stop()} aria-disabled={stopping}>
            <span class="stop-shape" aria-hidden="true" />
            {stopping ? 'Stopping…' : 'Stop'}
          </button>
        )}
        {(!active || !empty) && (
          <button type="submit" class="button primary" disabled={empty || sending || offline}>
            <Icon name="send" />
            {sending ? 'Sending…' : waits(session?.schedule) ? 'Send and cancel retry' : queues ? 'Queue' : 'Send'}
          </button>
        )}
      </div>
    </form>
  );
}
