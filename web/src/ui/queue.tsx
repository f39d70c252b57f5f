import { useState } from 'preact/hooks';
import type { Store } from '../store';
import { textOf, type Pending } from '../types';
import { useLate } from './hooks';

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
  const [editing, setEditing] = useState(false);
  const late = useLate(store, editing);
  if (late && editing) return <late.EditChip store={store} pending={pending} number={number} onEnd={() => setEditing(false)} />;
  const name = `queued message ${number}`;
  return (
    <li class="chip">
      <span class="chip-number">{number}</span>
      <span class="chip-text">{textOf(pending.parts)}</span>
      <button type="button" class="text" aria-label={`Edit ${name}`} onClick={() => setEditing(true)}>
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
