import { useState } from 'preact/hooks';
import type { Store } from '../store';
import { Dialog } from './dialog';

const dollar = 1_000_000_000;

/** Sets what the session may cost at most. */
export function Limit({ store }: { store: Store }) {
  const [text, setText] = useState('');
  const amount = Number(text);
  const valid = text.trim() !== '' && Number.isFinite(amount) && amount >= 0 && amount <= 1_000_000;
  return (
    <Dialog store={store} title="What this session may cost" class="ask" closes={false}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (valid) void store.setLimit(Math.round(amount * dollar));
        }}
      >
        <label class="field">
          Limit in US dollars; 0: none
          <input type="text" inputMode="decimal" autofocus value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </label>
        <p class="soft">It holds from the next request on. Nothing starts by itself: retry when it is set.</p>
        <div class="ask-actions">
          <button type="button" class="button" onClick={() => store.closeDialog()}>
            Leave as it is
          </button>
          <button type="submit" class="button primary" disabled={!valid}>
            Set the limit
          </button>
        </div>
      </form>
    </Dialog>
  );
}
