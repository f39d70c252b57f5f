import * as api from '../api';
import type { Store } from '../store';
import type { Session } from '../types';

/** Takes a session out of the archive. */
export function Restore({ store, session }: { store: Store; session: Session }) {
  return (
    <button type="button" class="button" aria-label={`Restore ${session.title || 'New session'}`} onClick={() => void api.patchSession(session.id, { archived: false }).catch((e: Error) => store.failed(e.message))}>
      Restore
    </button>
  );
}
