import { useState } from 'preact/hooks';
import type { Store } from '../store';
import { textOf, type Pending } from '../types';

/** The messages that wait for the run before them, in order. */
export function Queue({ store, pending, paused }: { store: Store; pending: Pending[]; paused: boolean }) {
  if (pending.length === 0) return null;
  return (
    <section class="queue" aria-label="Queued messages">
      {paused && <p class="queue-note">The queue waits: the last run did not finish. Send one, or write something new.</p>}
      <ol>
        {pending.map((p, i) => (
          <Chip key={p.message_id} store={store} pending={p} number={i + 1} next={i === 0 && !paused} />
        ))}
      </ol>
    </section>
  );
}

function Chip({ store, pending, number, next }: { store: Store; pending: Pending; number: number; next: boolean }) {
  const said = textOf(pending.parts);
  const [text, setText] = useState<string | null>(null);
  const save = async () => {
    if (text!.trim() === '') return;
    if (text === said || (await store.editPending(pending.message_id, text!))) setText(null);
  };
  if (text !== null) {
    return (
      <li class="chip editing">
        <form
          onSubmit={(e) => {
            e.preventDefault();
            void save();
          }}
        >
          <label class="hidden" for={`edit-${pending.message_id}`}>
            Queued message {number}
          </label>
          <textarea
            id={`edit-${pending.message_id}`}
            rows={Math.min(6, text.split('\n').length + 1)}
            value={text}
            ref={(e) => {
              if (e && document.activeElement !== e) e.focus();
            }}
            onInput={(e) => setText(e.currentTarget.value)}
            onKeyDown={(e) => {
              if (e.key !== 'Escape') return;
              e.stopPropagation();
              setText(null);
            }}
          />
          <button type="submit" class="text">
            Save
          </button>
          <button type="button" class="text" onClick={() => setText(null)}>
            Leave as it was
          </button>
        </form>
      </li>
    );
  }
  const name = `queued message ${number}`;
  return (
    <li class="chip">
      <span class="chip-number">{number}</span>
      <span class="chip-text">{said}</span>
      <button type="button" class="text" aria-label={`Edit ${name}`} onClick={() => setText(said)}>
        Edit
      </button>
      <button type="button" class="text" aria-label={`Remove ${name}`} onClick={() => void store.removePending(pending.message_id)}>
        Remove
      </button>
      {!next && (
        <button type="button" class="text" aria-label={`Send ${name} next`} onClick={() => void store.sendNow(pending.message_id)}>
          Send next
        </button>
      )}
    </li>
  );
}
