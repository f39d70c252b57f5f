import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Icon } from './icons';

let opener: HTMLElement | null = null;

interface Props {
  title: string;
  class: string;
  describedBy?: string;
  closes?: boolean; // offers a button that does nothing but close
  onClose: () => void;
  children: ComponentChildren;
}

/** A modal dialog. The focus goes to what asks for it, and back to where it was. */
export function Dialog({ title, describedBy, closes = true, onClose, children, ...rest }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const active = document.activeElement;
    // One that follows another has the opener of the first.
    if (active instanceof HTMLElement && active !== document.body && !active.closest('dialog')) opener = active;
    dialog.current!.showModal();
    return () => queueMicrotask(() => !document.querySelector('dialog[open]') && opener?.isConnected && opener.focus());
  }, []);
  return (
    <dialog ref={dialog} class={`dialog ${rest.class}`} aria-labelledby="dialog-title" aria-describedby={describedBy} onClose={onClose}>
      <header class="dialog-head">
        <h2 id="dialog-title">{title}</h2>
        {closes && (
          <button type="button" class="button quiet icon-only" aria-label="Close" onClick={() => dialog.current!.close()}>
            <Icon name="close" />
          </button>
        )}
      </header>
      {children}
    </dialog>
  );
}
