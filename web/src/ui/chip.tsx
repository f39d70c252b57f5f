import { useState } from 'preact/hooks';
import type { Store } from '../store';
import { textOf, type Pending } from '../types';

interface Props {
  store: Store;
  pending: Pending;
  number: number;
  onEnd: () => void;
}

/** A queued message while it is being changed. */
export function EditChip({ store, pending, number, onEnd }: Props) {
  const said = textOf(pending.parts);
  const [text, setText] = useState(said);
  const save = async () => {
    if (text.trim() === '') return;
    if (text === said || (await store.editPending(pending.message_id, text))) onEnd();
  };
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
            onEnd();
          }}
        />
        <button type="submit" class="text">
          Save
        </button>
        <button type="button" class="text" onClick={onEnd}>
          Leave as it was
        </button>
      </form>
    </li>
  );
}
