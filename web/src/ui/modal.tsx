import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

interface Props {
  title: string;
  done: string; // the text of the button that does it
  ready?: boolean;
  onDone: () => void;
  onClose: () => void;
  children: ComponentChildren;
}

let made = 0;

/** A small question in front of the page. The focus comes back to what opened it. */
export function Modal({ title, done, ready = true, onDone, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useRef(`modal-${++made}`);
  useLayoutEffect(() => {
    const opener = document.activeElement as HTMLElement | null;
    dialog.current!.showModal();
    return () => queueMicrotask(() => opener?.isConnected && opener.focus());
  }, []);
  return (
    <dialog class="ask" ref={dialog} aria-labelledby={id.current} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (ready) onDone();
        }}
      >
        <h2 id={id.current}>{title}</h2>
        {children}
        <div class="ask-actions">
          <button type="button" class="button" onClick={onClose}>
            Leave as it is
          </button>
          <button type="submit" class="button primary" disabled={!ready}>
            {done}
          </button>
        </div>
      </form>
    </dialog>
  );
}
