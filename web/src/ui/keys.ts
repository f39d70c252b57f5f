import { useEffect } from 'preact/hooks';
import { drawerOf } from '../app';
import { device } from '../device';
import type { Store } from '../store';
import { ended, waits } from '../types';

/** The keys of the page: Escape everywhere, single letters outside of what is typed in. */
export function useKeys(store: Store, setHint: (hint: string) => void): void {
  useEffect(() => {
    let armed = 0;
    const disarm = () => {
      clearTimeout(armed);
      armed = 0;
      setHint('');
    };
    const escape = (target: HTMLElement) => {
      if (drawerOf(store.app.route)) return store.showAttempts('');
      const { last_run: run, schedule } = store.session() ?? {};
      const waiting = waits(schedule);
      if (!waiting && (!run || ended(run))) return;
      // A draft in the box may be what the key was meant for: the first press only warns.
      if (armed === 0 && target instanceof HTMLTextAreaElement && target.value.trim() !== '') {
        armed = window.setTimeout(disarm, 3000);
        return setHint(waiting ? 'Press Esc again to cancel the retry' : 'Press Esc again to stop');
      }
      disarm();
      void (waiting ? store.cancelRetry() : store.stop());
    };
    let went = -1000; // when g was pressed
    const press = (e: KeyboardEvent) => {
      if (e.defaultPrevented || document.querySelector('dialog[open]')) return;
      const target = e.target as HTMLElement;
      if (e.key === 'Escape') return escape(target);
      if (target.matches('input, textarea, select') || e.ctrlKey || e.metaKey || e.altKey || !device().letters) return;
      if (e.key === 'w' && e.timeStamp - went < 1000) return store.go('/waiting');
      went = e.key === 'g' ? e.timeStamp : -1000;
      if (e.key === '?') return store.show({ kind: 'keys' });
      letter(store, e.key, target);
    };
    document.addEventListener('keydown', press);
    return () => {
      document.removeEventListener('keydown', press);
      clearTimeout(armed);
    };
  }, [store]);
}

/** What a letter does in a session: to the turn that has the focus, else to the last. */
function letter(store: Store, key: string, target: HTMLElement): void {
  const session = store.session();
  const focus = store.app.server.focus;
  if (!session || !focus) return;
  const turn = target.closest<HTMLElement>('[data-turn]')?.dataset.turn;
  switch (key) {
    case 'j':
    case 'k':
      return move(key === 'j' ? 1 : -1);
    case '[':
    case ']':
      // The turn's own buttons know which version comes next.
      return [...document.querySelectorAll<HTMLElement>('[data-turn]')]
        .findLast((t) => (!turn || t.dataset.turn === turn) && t.querySelector('.switcher'))
        ?.querySelector<HTMLElement>(`.switcher [aria-label="${key === '[' ? 'Previous' : 'Next'} version"]`)
        ?.click();
    case 'r': {
      if (session.last_run && !ended(session.last_run)) return;
      const message = focus.messages.findLast((m) => m.role === 'operator' && (!turn || m.id === turn));
      return message && void store.regenerate(message);
    }
    case 't':
      return waits(session.schedule) ? void store.retryNow() : undefined;
    case 'a': {
      const message = turn ?? session.last_run?.message_id ?? '';
      return store.showAttempts(drawerOf(store.app.route) ? '' : message);
    }
  }
}

/** Moves the focus to the next or the previous message; from elsewhere, to what is in view. */
function move(by: 1 | -1): void {
  const log = document.querySelector<HTMLElement>('[role=log]');
  const all = [...document.querySelectorAll<HTMLElement>('[role=log] article')];
  if (!log || all.length === 0) return;
  const at = all.findIndex((a) => a.contains(document.activeElement));
  const top = log.getBoundingClientRect().top + 1;
  const inView = all.findIndex((a) => a.getBoundingClientRect().bottom > top);
  const next = at < 0 ? all[Math.max(0, by > 0 ? inView : inView - 1)]! : all[at + by];
  if (!next) return;
  next.focus({ preventScroll: true });
  const box = next.getBoundingClientRect();
  const view = log.getBoundingClientRect();
  // A message that does not fit shows its beginning.
  if (box.top < view.top || box.bottom > view.bottom) log.scrollTop += box.top - view.top - 12;
}
