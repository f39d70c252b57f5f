import { useState } from 'preact/hooks';
import * as api from '../api';
import type { Store } from '../store';
import type { Session } from '../types';
import { Modal } from './modal';

/** Asks for another title of a session. */
export function Rename({ store, session, onClose }: { store: Store; session: Session; onClose: () => void }) {
  const [title, setTitle] = useState(session.title);
  const rename = () => {
    api.patchSession(session.id, { title }).catch((e: Error) => store.failed(e.message));
    onClose();
  };
  return (
    <Modal title="Rename the session" done="Rename" ready={title.trim() !== '' && title !== session.title} onDone={rename} onClose={onClose}>
      <label class="field">
        <span>Title</span>
        <input type="text" value={title} maxLength={200} autofocus onFocus={(e) => e.currentTarget.select()} onInput={(e) => setTitle(e.currentTarget.value)} />
      </label>
    </Modal>
  );
}
