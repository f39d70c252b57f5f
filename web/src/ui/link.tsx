import type { ComponentChildren } from 'preact';
import type { Store } from '../store';

interface Props {
  store: Store;
  to: string;
  class: string;
  children: ComponentChildren;
  'aria-label'?: string;
  'aria-current'?: 'page' | undefined;
}

/** A link that stays on the page; the browser's own ways to open it elsewhere keep working. */
export function Link({ store, to, children, ...rest }: Props) {
  const click = (e: MouseEvent) => {
    if (e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    store.go(to);
  };
  return (
    <a href={to} onClick={click} {...rest}>
      {children}
    </a>
  );
}
