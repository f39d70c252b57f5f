import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import { device } from '../device';
import { needed, notices, type Notice } from '../notices';
import type { App, Store } from '../store';
import type { Session } from '../types';

const pollEvery = 30_000;
const overlap = 2000; // two changes may have the same time: what comes again is the same

/** Looks after a page that nobody looks at: what needs the operator is counted in its title, and told. */
export function useAway(store: Store, app: App): void {
  const polled = usePolled(app);
  const sessions = useMemo(() => ({ ...app.server.sessions, ...polled }), [app.server.sessions, polled]);
  const n = useMemo(() => needed(sessions), [sessions]);
  const before = useRef<Record<string, Session> | null>(null);
  const told = useRef(new Set<string>()); // the sessions that were told of since somebody looked
  useEffect(() => {
    const looked = () => document.hidden || told.current.clear();
    document.addEventListener('visibilitychange', looked);
    return () => document.removeEventListener('visibilitychange', looked);
  }, []);
  useEffect(() => {
    const title = document.title.replace(/^\(\d+\) /, '');
    const counted = n > 0 ? `(${n}) ${title}` : title;
    if (counted !== document.title) document.title = counted;
  }); // whoever sets a title knows nothing of the count
  useEffect(() => {
    if (!app.server.system) return;
    const news = before.current ? notices(before.current, sessions) : [];
    before.current = sessions;
    if (!document.hidden || !device().notify) return;
    for (const notice of news) {
      if (told.current.has(notice.session)) continue;
      told.current.add(notice.session);
      tell(store, notice);
    }
  }, [sessions]);
}

function tell(store: Store, { title, body, path, session }: Notice): void {
  if (!('Notification' in window) || Notification.permission !== 'granted') return;
  try {
    // Tabs that tell of the same session replace each other's notice.
    const shown = new Notification(title, { body, tag: session, icon: '/favicon.svg' });
    shown.onclick = () => {
      window.focus();
      store.go(path);
      shown.close();
    };
  } catch {
    // A browser that only lets a service worker notify; the title still counts.
  }
}

/** What has changed while the page has no stream, as far as the list is concerned. The stream, once it is back, tells all of it again. */
function usePolled(app: App): Record<string, Session> {
  const [changed, setChanged] = useState<Record<string, Session>>({});
  const paused = app.link.kind === 'paused';
  useEffect(() => {
    if (!paused) return setChanged({});
    const known = { ...app.server.sessions };
    let over = false;
    const look = async () => {
      const last = Math.max(0, ...Object.values(known).map((s) => s.updated_at));
      const { sessions } = await api.changedSessions(Math.max(0, last - overlap));
      if (over) return;
      for (const s of sessions) known[s.id] = s;
      setChanged((was) => ({ ...was, ...Object.fromEntries(sessions.map((s) => [s.id, s])) }));
    };
    const timer = setInterval(() => void look().catch(() => {}), pollEvery); // asked again in time
    return () => {
      over = true;
      clearInterval(timer);
    };
  }, [paused]);
  return changed;
}
