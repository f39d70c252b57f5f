import { useState } from 'preact/hooks';
import type { Store } from '../store';
import { Modal } from './modal';

const dollar = 1_000_000_000;

/** Sets what the session may cost at most. */
export function Limit({ store }: { store: Store }) {
  const [text, setText] = useState('');
  const amount = Number(text);
  const valid = text.trim() !== '' && amount >= 0 && amount <= 1_000_000;
  return (
    <Modal title="What this session may cost" done="Set the limit" ready={valid} onDone={() => void store.setLimit(Math.round(amount * dollar))} onClose={() => store.closeDialog()}>
      <label class="field">
        <span>US dollars; 0: no limit</span>
        <input type="text" inputMode="decimal" autofocus value={text} onInput={(e) => setText(e.currentTarget.value)} />
      </label>
      <p class="soft">It holds from the next request on. Nothing starts by itself.</p>
    </Modal>
  );
}
