import { near, spent } from '../money';
import type { Store } from '../store';
import type { Session } from '../types';

/** What the session has cost, with a word where it comes near its limit. */
export function SpendTotal({ store, session: s }: { store: Store; session: Session }) {
  // Of a first request that is still going nobody has failed to report the cost.
  const text = s.state === 'running' && s.spend.amount === 0 ? '' : spent(s.spend);
  const label = near(s.spend, s.settings.spend_limit || store.app.server.system?.spend.session_limit);
  if (!text && !label) return null;
  return (
    <span class="head-spend number" title="What all attempts of this session cost">
      <span class="hidden">Spent: </span>
      {text}
      {label && <strong> {label}</strong>}
    </span>
  );
}
