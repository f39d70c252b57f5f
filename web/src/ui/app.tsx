import { useEffect, useRef, useState } from 'preact/hooks';
import { announce, marks, sentences, writing, type Said } from '../announce';
import { drawerOf, type App, type Dialog } from '../app';
import type { Store } from '../store';
import { ordered } from '../view';
import { useAway } from './away';
import { Banner } from './banner';
import { Conversation } from './conversation';
import { notLoaded, useApp, useDevice, useLate, useMedia } from './hooks';
import { Mark } from './icons';
import { useKeys } from './keys';
import { loadRest } from './later';
import { SessionList } from './list';
import { NewSession } from './new';

export function Root({ store }: { store: Store }) {
  const app = useApp(store);
  const narrow = useMedia('(max-width: 720px)');
  const [hint, setHint] = useState('');
  useKeys(store, setHint);
  useDevice(); // its clock is in every time
  useEffect(() => {
    void loadRest(() => store.failed(notLoaded));
  }, []);
  const { route, server } = app;
  const attempts = app.link.kind === 'missing' ? '' : drawerOf(route);
  const late = useLate(store, attempts !== '' || app.dialog !== null || !['session', 'home', 'new'].includes(route.name));
  useEffect(() => {
    if (route.name !== 'session') document.title = 'Reprise';
  }, [route.name]);
  useAway(store, app); // after every other title
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
            <main class="main" inert={narrow && late !== null && attempts !== ''}>
              {route.name === 'session' ? (
                <Conversation store={store} app={app} id={route.id} />
              ) : route.name === 'waiting' ? (
                late && <late.Waiting store={store} app={app} />
              ) : route.name === 'archived' ? (
                late && <late.Archived store={store} app={app} />
              ) : route.name === 'gateway' ? (
                late && <late.Gateway store={store} app={app} />
              ) : route.name === 'settings' ? (
                late && <late.Settings store={store} app={app} />
              ) : (
                <NewSession store={store} app={app} />
              )}
              {hint && <p class="hint">{hint}</p>}
            </main>
          )}
          {late && attempts && <late.Drawer key={attempts} store={store} app={app} of={attempts} />}
          {late && app.dialog && <late.Dialogs key={dialogKey(app.dialog)} store={store} app={app} dialog={app.dialog} />}
        </div>
      )}
    </>
  );
}

// Another question is another dialog; the same one, brought up to date, stays.
const dialogKey = (d: Dialog): string => (d.kind === 'compare' ? `compare/${d.version}` : d.kind);

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
  useEffect(() => {
    if (app.said) setSaid({ status: app.said });
  }, [app.said]);
  const { speak } = useDevice();
  const spoken = useRef({ run: '', to: 0 });
  const current = useRef(app.server);
  current.current = app.server;
  const replying = speak && writing(app.server) !== '';
  useEffect(() => {
    if (!replying) return;
    const timer = setInterval(() => {
      const run = current.current.focus?.live?.run ?? '';
      if (spoken.current.run !== run) spoken.current = { run, to: 0 };
      const { said, to } = sentences(writing(current.current), spoken.current.to);
      spoken.current.to = to;
      if (said) setSaid({ status: said });
    }, 5000);
    return () => clearInterval(timer);
  }, [replying]);
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
