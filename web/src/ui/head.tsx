import type { Store } from '../store';
import { Icon } from './icons';
import { Link } from './link';

/** The head of a screen that is no session; on a phone it leads back to the list. */
export function Head({ store, title }: { store: Store; title: string }) {
  return (
    <header class="head">
      <Link store={store} to="/" class="back" aria-label="All sessions">
        <Icon name="back" />
      </Link>
      <h1>{title}</h1>
    </header>
  );
}
