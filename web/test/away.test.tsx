import { act, cleanup, render } from '@testing-library/preact';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { setDevice } from '../src/device';
import { empty } from '../src/state';
import type { App } from '../src/app';
import { Store } from '../src/store';
import type { Session } from '../src/types';
import { useAway } from '../src/ui/away';
import { run, schedule, session, snapshot } from './make';

let told: string[];
let hidden = true;
let store: Store;

const busy = session({ title: 'Fix', state: 'running', last_run: run() });
const held = session({ title: 'Fix', last_run: run({ state: 'failed' }), schedule: schedule({ state: 'held', hold_reason: 'nobody_watching' }) });
const app = (s: Session, link: App['link'] = { kind: 'open' }): App => ({ ...store.app, link, server: { ...empty, system: snapshot().snapshot!.system, sessions: { [s.id]: s } } });

function Page({ of }: { of: App }) {
  useAway(store, of);
  return null;
}

beforeEach(() => {
  told = [];
  hidden = true;
  vi.useFakeTimers();
  vi.spyOn(document, 'hidden', 'get').mockImplementation(() => hidden);
  vi.stubGlobal(
    'Notification',
    class {
      static permission = 'granted';
      constructor(title: string) {
        told.push(title);
      }
    },
  );
  store = new Store();
  setDevice({ notify: true });
  document.title = 'Fix · Reprise';
});

afterEach(() => {
  cleanup();
  setDevice({ notify: false });
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const look = (visible: boolean) => {
  hidden = !visible;
  document.dispatchEvent(new Event('visibilitychange'));
};

// K-185
test('a session is told of once until somebody looks', () => {
  const { rerender } = render(<Page of={app(busy)} />);
  const say = (s: Session) => rerender(<Page of={app(s)} />);
  for (const s of [held, busy, held]) say(s);
  expect(told).toEqual(['Fix: needs you']);
  look(true);
  for (const s of [busy, held]) say(s);
  expect(told).toEqual(['Fix: needs you']); // who looks sees it
  look(false);
  for (const s of [busy, held]) say(s);
  expect(told).toEqual(['Fix: needs you', 'Fix: needs you']);
});

test('nothing is told where it was not asked for, and what was there before is no news', () => {
  setDevice({ notify: false });
  const { rerender } = render(<Page of={app(busy)} />);
  rerender(<Page of={app(held)} />);
  cleanup();
  setDevice({ notify: true });
  render(<Page of={app(held)} />);
  expect(told).toEqual([]);
});

test('the title counts, also what somebody else writes into it', () => {
  const { rerender } = render(<Page of={app(held)} />);
  expect(document.title).toBe('(1) Fix · Reprise');
  document.title = '● Fix · Reprise';
  rerender(<Page of={app(held)} />);
  expect(document.title).toBe('(1) ● Fix · Reprise');
  rerender(<Page of={app(busy)} />);
  expect(document.title).toBe('● Fix · Reprise');
});

test('without a stream it polls for what has changed, and leaves the rest to the stream', async () => {
  const paths: string[] = [];
  vi.stubGlobal('fetch', async (path: string) => {
    paths.push(path);
    return new Response(JSON.stringify({ sessions: [{ ...held, updated_at: 9000, revision: 7 }] }));
  });
  const at = { ...busy, updated_at: 5000 };
  const { rerender } = render(<Page of={app(at)} />);
  rerender(<Page of={app(at, { kind: 'paused' })} />);
  await act(async () => void (await vi.advanceTimersByTimeAsync(61_000)));
  expect(paths).toEqual(['/api/v1/sessions?changed_after=3000', '/api/v1/sessions?changed_after=7000']);
  expect(told).toEqual(['Fix: needs you']);
  expect(document.title).toBe('(1) Fix · Reprise');
  rerender(<Page of={app(at)} />);
  await act(async () => void (await vi.advanceTimersByTimeAsync(120_000)));
  expect(paths.length).toBe(2);
  expect(document.title).toBe('Fix · Reprise');
});
