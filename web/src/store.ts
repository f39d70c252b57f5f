import * as api from './api';
import { ApiError, newKey } from './api';
import { empty, reduce, withSchedule, type State } from './state';
import { EventStream, type Link } from './stream';
import { ended, type Message, type ModelList, type Schedule, type ServerEvent, type Session } from './types';

// The page's one store: the server's state as it was told, and what only the page knows. It
// repaints at most thirty times a second, however many events arrive.

export type Route = { name: 'home' | 'new' | 'waiting' } | { name: 'session'; id: string };

export interface Effect {
  call_id: string;
  name: string;
  arguments: string;
  state: string;
  started_at: number;
}

export interface Ask {
  message: Message; // the operator message to answer anew
  effects: Effect[];
  later: number; // operator messages behind it
  retry?: boolean; // it was the retry bar that was pressed
}

export interface App {
  server: State;
  route: Route;
  link: Link;
  models: ModelList | null;
  stopping: Record<string, boolean>; // runs that this page asked to stop, until the server confirms
  starting: string; // the schedule, as session/token, whose start this page asked for
  error: string; // of the last act that was refused or not delivered
  ask: Ask | null;
  drawer: string; // the run whose attempts are shown; empty: closed
  history: Message[] | null; // superseded messages, where they were asked for
}

const paint = 1000 / 30;

const effectsOf = (e: ApiError): Effect[] => (e.details as { effects?: Effect[] } | null)?.effects ?? [];

export class Store {
  app: App = {
    server: empty, route: { name: 'home' }, link: { kind: 'connecting' }, models: null,
    stopping: {}, starting: '', error: '', ask: null, drawer: '', history: null,
  };
  #listeners = new Set<() => void>();
  #stream: EventStream;
  #due = 0;
  #painted = 0;
  #made = { key: '', id: '' }; // the session that was made for a first message, which may not have arrived

  constructor() {
    this.#stream = new EventStream({
      onFrames: (frames) => this.receive(frames.map((f) => JSON.parse(f.data) as ServerEvent)),
      onLink: (link) => this.#set({ link }),
    });
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #set(change: Partial<App>): void {
    this.app = { ...this.app, ...change };
    if (this.#due) return;
    const wait = Math.max(0, this.#painted + paint - performance.now());
    this.#due = window.setTimeout(() => {
      this.#due = 0;
      this.#painted = performance.now();
      for (const l of this.#listeners) l();
    }, wait);
  }

  receive(events: ServerEvent[]): void {
    const now = Date.now();
    let server = this.app.server;
    for (const e of events) server = reduce(server, e, now);
    if (server.gap) this.#stream.again();
    this.#set({ server });
  }

  // Where the page is.

  async start(): Promise<void> {
    await this.#signIn();
    window.addEventListener('popstate', () => this.#arrive());
    // A launch link that is opened in a tab of this page changes nothing but the fragment.
    window.addEventListener('hashchange', () => void this.#signIn().then((used) => used && location.reload()));
    this.#arrive();
    void this.#loadModels();
  }

  /** Exchanges the secret of a launch link, if there is one, for a login. */
  async #signIn(): Promise<boolean> {
    const secret = /^#launch=(.+)$/.exec(location.hash)?.[1];
    if (!secret) return false;
    // It leaves the address before anything else can read it.
    history.replaceState(null, '', location.pathname);
    try {
      await api.login(decodeURIComponent(secret));
    } catch (e) {
      // A used link does no harm where the browser is signed in already: the stream finds out.
      if (!(e instanceof ApiError)) throw e;
    }
    return true;
  }

  go(path: string): void {
    if (path !== location.pathname) history.pushState(null, '', path);
    this.#arrive();
  }

  #arrive(): void {
    const id = /^\/s\/([^/]+)$/.exec(location.pathname)?.[1];
    const page = location.pathname.slice(1);
    const route: Route = id ? { name: 'session', id: decodeURIComponent(id) } : { name: page === 'new' || page === 'waiting' ? page : 'home' };
    this.#set({ route, error: '', ask: null, drawer: '', history: null });
    this.#stream.follow(route.name === 'session' ? route.id : '');
  }

  async #loadModels(): Promise<void> {
    try {
      this.#set({ models: await api.listModels() });
    } catch {
      // Without the list the picker shows the session's model alone; the stream tells of the connection.
    }
  }

  reconnect(): void {
    this.#stream.retry();
    if (!this.app.models) void this.#loadModels();
  }

  // What the operator does. Each act resolves to whether the server took it.

  session(): Session | undefined {
    const { route, server } = this.app;
    return route.name === 'session' ? server.sessions[route.id] : undefined;
  }

  async #act(f: () => Promise<unknown>): Promise<boolean> {
    try {
      await f();
      if (this.app.error) this.#set({ error: '' });
      return true;
    } catch (e) {
      this.#refused(e);
      return false;
    }
  }

  #refused(e: unknown): void {
    if (!(e instanceof ApiError)) throw e;
    if (e.status === 401) this.#set({ link: { kind: 'signed-out' } });
    else this.#set({ error: e.message });
  }

  /** Posts to the session on screen, or to a new one. The key stays the same while the text is not delivered. */
  send(text: string, key: string, model = ''): Promise<boolean> {
    return this.#act(async () => {
      const open = this.session();
      if (!open && this.#made.key !== key) this.#made = { key, id: (await api.createSession(model)).id };
      const id = open?.id ?? this.#made.id;
      await api.post(id, text, key);
      if (!open) this.go(`/s/${id}`);
    });
  }

  async stop(): Promise<void> {
    const s = this.session();
    const run = s?.last_run;
    if (!s || !run || ended(run) || this.app.stopping[run.id]) return;
    this.#set({ stopping: { ...this.app.stopping, [run.id]: true } });
    try {
      const after = await api.cancel(s.id, run.id);
      if (ended(after)) this.#stopped(run.id);
    } catch (e) {
      this.#stopped(run.id);
      this.#refused(e);
      if (e instanceof ApiError && e.status === 0) this.#set({ error: 'Stop was not delivered. The run may still be going.' });
    }
  }

  #stopped(run: string): void {
    const { [run]: _, ...stopping } = this.app.stopping;
    this.#set({ stopping });
  }

  /** Answers a message anew; asks first where something could be missed. confirmed is the question that was answered. */
  async regenerate(message: Message, confirmed?: Ask): Promise<void> {
    const s = this.session();
    if (!s) return;
    const later = this.app.server.focus?.messages.filter((m) => m.role === 'operator' && m.position > message.position).length ?? 0;
    if (later > 0 && !confirmed) {
      this.#set({ ask: { message, effects: [], later } });
      return;
    }
    this.#set({ ask: null });
    try {
      // Only effects that were listed are confirmed: the server names all of them.
      await api.regenerate(s.id, message.id, s.revision, (confirmed?.effects.length ?? 0) > 0, newKey());
      this.#set({ error: '', history: null });
    } catch (e) {
      if (e instanceof ApiError && e.code === 'effects_not_confirmed') {
        this.#set({ ask: { message, effects: effectsOf(e), later } });
      } else if (e instanceof ApiError && e.code === 'stale_revision') {
        this.#set({ error: 'The session has moved on. Look again, then repeat.' });
      } else this.#refused(e);
    }
  }

  // The retry bar. Each act names the token of the schedule that was seen.

  /** Starts the session's schedule at once. confirmed is the question that was answered. */
  async retryNow(confirmed?: Ask): Promise<void> {
    const s = this.session();
    if (!s?.schedule) return;
    const { token, anchor_message_id: anchor } = s.schedule;
    const starting = `${s.id}/${token}`;
    if (this.app.starting === starting) return;
    this.#set({ ask: null, starting });
    try {
      await api.retryNow(s.id, token, (confirmed?.effects.length ?? 0) > 0, newKey());
      this.#set({ error: '', history: null });
    } catch (e) {
      this.#set({ starting: '' });
      const message = this.app.server.focus?.messages.find((m) => m.id === anchor);
      if (message && e instanceof ApiError && e.code === 'effects_not_confirmed') {
        this.#set({ ask: { message, effects: effectsOf(e), later: 0, retry: true } });
      } else this.#missed(e);
    }
  }

  /** Ends the wait; on a schedule that has stopped, removes it. */
  async cancelRetry(): Promise<void> {
    const s = this.session();
    if (!s?.schedule) return;
    await this.#onSchedule(api.cancelRetry(s.id, s.schedule.token));
    this.#set({ starting: '' });
  }

  /** Waits for the time that the provider stated. */
  async scheduleRetry(): Promise<void> {
    const s = this.session();
    if (s?.schedule) await this.#onSchedule(api.scheduleRetry(s.id, s.schedule.token));
  }

  async #onSchedule(act: Promise<unknown>): Promise<void> {
    try {
      await act;
      this.#set({ error: '' });
    } catch (e) {
      this.#missed(e);
    }
  }

  #missed(e: unknown): void {
    if (!(e instanceof ApiError) || e.code !== 'stale_token') return this.#refused(e);
    const schedule = (e.details as { schedule?: Schedule } | null)?.schedule;
    if (schedule) this.#set({ server: withSchedule(this.app.server, schedule) });
    this.#set({ error: 'The retry has changed since you saw it. Look again, then repeat.' });
  }

  dismissAsk(): void {
    this.#set({ ask: null });
  }

  resume(run: string): Promise<boolean> {
    const id = this.session()!.id;
    return this.#act(() => api.resume(id, run, newKey()));
  }

  setModel(model: string): Promise<boolean> {
    const id = this.session()!.id;
    return this.#act(() => api.setModel(id, model));
  }

  editPending(mid: string, text: string): Promise<boolean> {
    const id = this.session()!.id;
    return this.#act(() => api.editPending(id, mid, text));
  }

  removePending(mid: string): Promise<boolean> {
    const id = this.session()!.id;
    return this.#act(() => api.removePending(id, mid));
  }

  sendNow(mid: string): Promise<boolean> {
    const id = this.session()!.id;
    return this.#act(() => api.sendNow(id, mid));
  }

  showAttempts(run: string): void {
    this.#set({ drawer: run });
  }

  /** Tells of something that went wrong in the page itself. */
  failed(error: string): void {
    this.#set({ error, ask: null, drawer: '' });
  }

  dismissError(): void {
    this.#set({ error: '' });
  }

  async showSuperseded(): Promise<void> {
    const id = this.session()!.id;
    await this.#act(async () => {
      const { messages } = await api.history(id);
      this.#set({ history: messages.filter((m) => m.superseded_by) });
    });
  }

  hideSuperseded(): void {
    this.#set({ history: null });
  }
}
