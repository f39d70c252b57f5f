import type { ComponentChildren } from 'preact';
import type { Store } from '../store';
import { Icon } from './icons';
import { Link } from './link';

/** The head of a screen; on a phone it leads back to the list. */
export function Head({ store, title, children }: { store: Store; title: string; children?: ComponentChildren }) {
  return (
    <header class="head">
      <Link store={store} to="/" class="back" aria-label="All sessions">
        <Icon name="back" />
      </Link>
      <h1>{title}</h1>
      {children}
    </header>
  );
}
