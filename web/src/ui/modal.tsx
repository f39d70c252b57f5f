import type { ComponentChildren } from 'preact';
import { Dialog } from './dialog';

interface Props {
  title: string;
  done: string; // the text of the button that does it
  ready?: boolean;
  onDone: () => void;
  onClose: () => void;
  children: ComponentChildren;
}

/** A small question in front of the page. */
export function Modal({ title, done, ready = true, onDone, onClose, children }: Props) {
  return (
    <Dialog title={title} class="ask" closes={false} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (ready) onDone();
        }}
      >
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
    </Dialog>
  );
}
