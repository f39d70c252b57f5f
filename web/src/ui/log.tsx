import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { markRead, readTo } from '../read';
import { Icon } from './icons';

interface Props {
  id: string;
  loaded: boolean;
  change: unknown; // differs when there is something new
  drawn: unknown; // differs when the same is drawn anew
  last: string; // the last operator message: who sends one wants to see it
  position: number; // of the last message that is shown whole; 0: what is shown is not the end
  children: ComponentChildren;
}

/**
 * The scroll box of the log. It opens at what was not read yet, follows the end while the
 * reader is there, and never moves otherwise.
 */
export function Log({ id, loaded, change, drawn, last, position, children }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const opened = useRef(''); // the session that was placed
  const place = useRef<{ at: HTMLElement; top: number } | null>(null); // where it was opened, until the reader moves
  const [behind, setBehind] = useState(false);
  const isEnd = (b: HTMLElement) => b.scrollHeight - b.scrollTop - b.clientHeight < 32;
  const end = useRef(0); // where the end was when it was last gone to
  const goToEnd = (b: HTMLElement) => {
    b.scrollTop = b.scrollHeight;
    end.current = b.scrollTop;
  };
  const toEnd = () => {
    following.current = true;
    place.current = null;
    setBehind(false);
    goToEnd(box.current!);
  };
  // A reader who has just moved up is not pulled back: word of it comes with the next frame only.
  const follow = (b: HTMLElement) => {
    if (b.scrollTop < end.current - 1 && !isEnd(b)) following.current = false;
    if (following.current) goToEnd(b);
  };
  const toPlace = (at: HTMLElement) => {
    const b = box.current!;
    b.scrollTop += at.getBoundingClientRect().top - b.getBoundingClientRect().top - 12;
    following.current = isEnd(b);
    place.current = following.current ? null : { at, top: b.scrollTop };
  };
  useLayoutEffect(() => {
    if (!loaded) return;
    const first = opened.current !== id;
    opened.current = id;
    const at = first && firstUnread(box.current!, readTo(id));
    if (at) toPlace(at);
    else toEnd();
  }, [id, loaded, last]);
  useLayoutEffect(() => {
    const b = box.current!;
    if (following.current) follow(b);
    else if (place.current) toPlace(place.current.at);
    setBehind(!following.current);
  }, [drawn]);
  useLayoutEffect(() => {
    if (following.current) follow(box.current!);
    if (!following.current) setBehind(true);
  }, [change]);
  useLayoutEffect(() => {
    if (loaded && position > 0 && following.current && !document.hidden) markRead(id, position);
  });
  const scrolled = () => {
    const b = box.current!;
    following.current = isEnd(b);
    if (place.current && Math.abs(b.scrollTop - place.current.top) > 1) place.current = null;
    if (!following.current) return;
    end.current = b.scrollTop;
    setBehind(false);
    if (position > 0) markRead(id, position);
  };
  return (
    <div class="log-frame">
      <div class="log" role="log" aria-live="off" aria-label="Conversation" tabIndex={0} ref={box} onScroll={scrolled}>
        <div class="column">{children}</div>
      </div>
      {behind && (
        <button type="button" class="button new-output" onClick={toEnd}>
          <Icon name="down" />
          New output
        </button>
      )}
    </div>
  );
}

/** Where reading goes on; null: at the end. A session that this device has not read opens at its last turn. */
function firstUnread(box: HTMLElement, read: number | null): HTMLElement | null {
  const turns = [...box.querySelectorAll<HTMLElement>('.turn')];
  if (read === null) return turns.at(-1) ?? null;
  const turn = turns.find((t) => Number(t.dataset.to) > read);
  if (!turn) return null;
  return Number(turn.dataset.from) > read ? turn : (turn.querySelector<HTMLElement>('.reply') ?? turn);
}
