import { useEffect, useRef, useState } from 'preact/hooks';
import { announce, marks, type Said } from '../announce';
import { device } from '../device';
import type { App, Store } from '../store';
import { ended, waits } from '../types';
import { ordered } from '../view';
import { Banner } from './banner';
import { Conversation } from './conversation';
import { notLoaded, useApp, useLate, useMedia } from './hooks';
import { Mark } from './icons';
import { loadRest } from './later';
import { SessionList } from './list';
import { NewSession } from './new';

export function Root({ store }: { store: Store }) {
  const app = useApp(store);
  const narrow = useMedia('(max-width: 720px)');
  const [hint, setHint] = useState('');
  useKeys(store, setHint);
  useEffect(() => {
    void loadRest(() => store.failed(notLoaded));
  }, []);
  const { route, server } = app;
  const late = useLate(store, app.drawer !== '' || app.ask !== null || route.name === 'waiting');
  useEffect(() => {
    if (route.name !== 'session') document.title = 'Reprise';
  }, [route.name]);
  // On a phone the list and the rest are separate screens; without sessions there is no list to show.
  const first = route.name === 'home' && server.system !== null && ordered(server).length === 0;
  const list = route.name === 'home' && !first;
  const signedOut = app.link.kind === 'signed-out';
  return (
    <>
      <Announcer app={app} hint={hint} />
      {signedOut ? (
        <SignedOut />
      ) : (
        <div class="app">
          <Banner store={store} app={app} />
          {(!narrow || list) && <SessionList store={store} app={app} alone={narrow} />}
          {(!narrow || !list) && (
            <main class="main" inert={narrow && late !== null && app.drawer !== ''}>
              {route.name === 'session' ? (
                <Conversation store={store} app={app} id={route.id} />
              ) : route.name === 'waiting' ? (
                late && <late.Waiting store={store} app={app} />
              ) : (
                <NewSession store={store} app={app} />
              )}
              {hint && <p class="hint">{hint}</p>}
            </main>
          )}
          {late && app.drawer && <late.Drawer key={app.drawer} store={store} app={app} />}
          {late && app.ask && <late.AskDialog key={app.ask.effects.length} store={store} app={app} ask={app.ask} />}
        </div>
      )}
    </>
  );
}

function SignedOut() {
  return (
    <main class="plain-screen">
      <Mark />
      <h1>Signed out</h1>
      <p>Open a fresh launch link to sign in: the server prints one each time it starts. Your drafts are kept on this device.</p>
    </main>
  );
}

/** One polite and one assertive node, always in the page. */
function Announcer({ app, hint }: { app: App; hint: string }) {
  const before = useRef(app.server);
  const [said, setSaid] = useState<Said>({});
  useEffect(() => {
    const now = announce(before.current, app.server);
    before.current = app.server;
    if (now.status || now.alert) setSaid(now);
  }, [app.server]);
  const schedule = app.route.name === 'session' ? app.server.sessions[app.route.id]?.schedule : undefined;
  useEffect(() => {
    const timers = marks(schedule, Date.now() + app.server.clock).map((m) => window.setTimeout(() => setSaid({ status: m.text }), m.wait));
    return () => timers.forEach(clearTimeout);
  }, [schedule?.token, schedule?.state, schedule?.next_at]);
  const alert = app.link.kind === 'signed-out' ? 'Signed out. Your drafts are kept.' : app.error || said.alert || '';
  return (
    <>
      <div class="hidden" role="status">
        {hint || said.status || ''}
      </div>
      <div class="hidden" role="alert">
        {alert}
      </div>
    </>
  );
}

function useKeys(store: Store, setHint: (hint: string) => void): void {
  useEffect(() => {
    let armed = 0;
    const disarm = () => {
      clearTimeout(armed);
      armed = 0;
      setHint('');
    };
    let went = -1000; // when g was pressed
    const press = (e: KeyboardEvent) => {
      if (e.defaultPrevented || document.querySelector('dialog[open]')) return;
      const target = e.target as HTMLElement;
      const typing = target.matches('input, textarea, select');
      if (e.key === 'Escape') {
        if (store.app.drawer) return store.showAttempts('');
        const { last_run: run, schedule } = store.session() ?? {};
        const waiting = waits(schedule);
        if (!waiting && (!run || ended(run))) return;
        // A draft in the box may be what the key was meant for: the first press only warns.
        if (armed === 0 && target instanceof HTMLTextAreaElement && target.value.trim() !== '') {
          armed = window.setTimeout(disarm, 3000);
          setHint(waiting ? 'Press Esc again to cancel the retry' : 'Press Esc again to stop');
          return;
        }
        disarm();
        void (waiting ? store.cancelRetry() : store.stop());
        return;
      }
      if (typing || e.ctrlKey || e.metaKey || e.altKey || !device().letters) return;
      if (e.key === 'w' && e.timeStamp - went < 1000) return store.go('/waiting');
      went = e.key === 'g' ? e.timeStamp : -1000;
      const session = store.session();
      const focus = store.app.server.focus;
      if (!session || !focus) return;
      if (e.key === 'r' && (!session.last_run || ended(session.last_run))) {
        const last = focus.messages.findLast((m) => m.role === 'operator');
        if (last) void store.regenerate(last);
      }
      if (e.key === 't' && waits(session.schedule)) void store.retryNow();
      if (e.key === 'a' && session.last_run) store.showAttempts(store.app.drawer ? '' : session.last_run.id);
    };
    document.addEventListener('keydown', press);
    return () => {
      document.removeEventListener('keydown', press);
      clearTimeout(armed);
    };
  }, [store]);
}
