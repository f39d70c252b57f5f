import * as api from './api';
import { ApiError, newKey } from './api';
import { addressOf, drawerOf, nothingYet, routeOf, type App, type Ask, type Dialog } from './app';
import { lacksHistory, reduce, withHistory, withSchedule } from './state';
import { EventStream } from './stream';
import { ended, type Message, type Preview, type Schedule, type ServerEvent, type Session } from './types';
import { count } from './words';

// The page's one store: the server's state as it was told, and what only the page knows. It
// repaints at most thirty times a second, however many events arrive.

export type { App, Ask, Dialog };

const paint = 1000 / 30;
const opened = 'attempts'; // marks the entry of the browser's history that opening them made

export class Store {
  app: App = nothingYet;
  #listeners = new Set<() => void>();
  #stream: EventStream;
  #due = 0;
  #painted = 0;
  #history = ''; // the session whose history is on its way
  #regenerating = false;
  #start: Promise<unknown> = Promise.resolve(); // settles when the last Try now was answered
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
    this.#completeHistory();
  }

  // The attempts are those of every run that wrote the reply.
  #completeHistory(): void {
    const { route, server } = this.app;
    const f = server.focus;
    if (f && (lacksHistory(f, server.sessions[f.id]) || (drawerOf(route) && !f.whole))) void this.#readHistory(f.id);
  }

  async #readHistory(id: string): Promise<void> {
    if (this.#history === id) return;
    this.#history = id;
    try {
      const [{ messages }, { runs }] = await Promise.all([api.history(id), api.listRuns(id)]);
      this.#set({ server: withHistory(this.app.server, id, messages, runs) });
    } catch (e) {
      this.#refused(e);
      this.#set({ server: withHistory(this.app.server, id, [], []) }); // asked for again with the next snapshot
    }
    this.#history = '';
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
    if (path !== location.pathname + location.search) history.pushState(null, '', path);
    this.#arrive();
  }

  #arrive(): void {
    const route = routeOf(location.pathname, location.search);
    const before = this.app.route;
    if (route.name === 'session' && before.name === 'session' && route.id === before.id) {
      this.#set({ route, dialog: null });
      return this.#completeHistory();
    }
    this.#set({ route, error: '', said: '', receipt: null, dialog: null });
    this.#stream.follow(route.name === 'session' ? route.id : '');
  }

  /** Shows an earlier version of a reply in its place; 0: the current one. */
  showVersion(of: string, version: number, said = ''): void {
    const route = this.app.route;
    if (route.name !== 'session') return;
    const next = { ...route, version, of: version > 0 ? of : '' };
    history.replaceState(null, '', addressOf(next));
    this.#set({ route: next, dialog: null, said });
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

  // An act that went through is about the current line: it comes back into view.
  #done(said = ''): void {
    if (this.app.error || said) this.#set({ error: '', said });
    const { route } = this.app;
    if (route.name === 'session' && route.version > 0) this.showVersion('', 0, said);
  }

  /** Posts to the session on screen, or to a new one. The key stays the same while the text is not delivered. */
  send(text: string, key: string, model = ''): Promise<boolean> {
    return this.#act(async () => {
      const open = this.session();
      if (!open && this.#made.key !== key) this.#made = { key, id: (await api.createSession(model)).id };
      const id = open?.id ?? this.#made.id;
      await api.post(id, text, key);
      if (open) this.#done();
      else this.go(`/s/${id}`);
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

  /** Answers a message anew; asks first where something could be missed. */
  async regenerate(message: Message): Promise<void> {
    const s = this.session();
    const focus = this.app.server.focus;
    if (!s || !focus) return;
    const missed = focus.pending.length > 0 || focus.messages.some((m) => m.role === 'operator' && m.position > message.position);
    if (missed) await this.#ask(message);
    else await this.#regenerate(s, message, s.revision, false);
  }

  /** The question was answered with yes. */
  async confirm(ask: Ask): Promise<void> {
    const s = this.session();
    if (!s || this.app.dialog?.kind !== 'ask') return; // it was answered already
    // Only effects that were listed are confirmed: the server names all of them.
    const effects = ask.preview.effects.length > 0;
    if (ask.retry) await this.retryNow(effects);
    else await this.#regenerate(s, ask.message, ask.preview.revision, effects, true);
  }

  async #regenerate(s: Session, message: Message, revision: number, effects: boolean, asked = false): Promise<void> {
    if (this.#regenerating) return; // the second of a double click
    this.#regenerating = true;
    try {
      const { run_id: run, superseded = 0 } = await api.regenerate(s.id, message.id, revision, effects, newKey());
      const n = superseded;
      this.#set({ dialog: null, receipt: n > 0 ? { run, superseded: n } : null });
      this.#done(n > 0 ? `Superseded ${count(n, 'message')}` : '');
    } catch (e) {
      const code = e instanceof ApiError ? e.code : '';
      if (code === 'effects_not_confirmed' || (asked && code === 'stale_revision')) await this.#ask(message);
      else {
        this.#set({ dialog: null });
        if (code === 'stale_revision') this.#set({ error: 'The session has moved on. Look again, then repeat.' });
        else this.#refused(e);
      }
    } finally {
      this.#regenerating = false;
    }
  }

  /** Reads what would be superseded, and asks; an open question is brought up to date. */
  async #ask(message: Message, retry = false): Promise<void> {
    const id = this.session()?.id ?? '';
    const before = this.app.dialog;
    try {
      const preview = await api.preview(id, message.id);
      if (this.session()?.id !== id || this.app.dialog !== before) return; // the operator has gone on
      const open = before?.kind === 'ask' ? before : null;
      this.#set({ dialog: { kind: 'ask', message, preview, retry: open?.retry ?? retry, moved: !!open && (open.moved || !samePreview(open.preview, preview)) } });
    } catch (e) {
      this.#set({ dialog: null });
      this.#refused(e);
    }
  }

  /** Brings the open question up to date with a session that has moved on. */
  refreshAsk(ask: Ask): void {
    if (!this.#regenerating && this.app.dialog?.kind === 'ask') void this.#ask(ask.message);
  }

  // The retry bar. Each act names the token of the schedule that was seen.

  /** Starts the session's schedule at once. effects: those that were listed are confirmed. */
  async retryNow(effects = false): Promise<void> {
    const s = this.session();
    if (!s?.schedule) return;
    const { token, anchor_message_id: anchor, verb } = s.schedule;
    const starting = `${s.id}/${token}`;
    if (this.app.starting === starting) return;
    this.#set({ dialog: null, starting });
    try {
      const start = api.retryNow(s.id, token, effects, newKey());
      this.#start = start.catch(() => {});
      await start;
      this.#done();
    } catch (e) {
      this.#set({ starting: '' });
      const message = this.app.server.focus?.messages.find((m) => m.id === anchor);
      if (message && e instanceof ApiError && e.code === 'effects_not_confirmed') {
        if (verb === 'resume') this.show({ kind: 'effects' });
        else await this.#ask(message, true);
      } else this.#missed(e);
    }
  }

  /** Ends the wait; on a schedule that has stopped, removes it. */
  async cancelRetry(): Promise<void> {
    const s = this.session();
    if (!s?.schedule) return;
    // On a connection of its own it could be there before the start that it is to end.
    await this.#start;
    await this.#onSchedule(api.cancelRetry(s.id, s.schedule.token));
    this.#set({ starting: '' });
  }

  /** Waits for the time that the provider stated. */
  async scheduleRetry(): Promise<void> {
    const s = this.session();
    if (s?.schedule) await this.#onSchedule(api.scheduleRetry(s.id, s.schedule.token));
  }

  /** Waits until a later time. */
  async snoozeRetry(until: number): Promise<void> {
    const s = this.session();
    if (s?.schedule) await this.#onSchedule(api.snoozeRetry(s.id, s.schedule.token, until));
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

  /** Goes on after the last finished step of a run. */
  async resume(run: string): Promise<void> {
    const id = this.session()!.id;
    try {
      await api.resume(id, run, newKey());
      this.#set({ dialog: null });
      this.#done();
    } catch (e) {
      if (e instanceof ApiError && e.code === 'effects_not_confirmed') this.show({ kind: 'effects' });
      else this.#refused(e);
    }
  }

  /** Settles a tool call whose outcome nobody knows. */
  resolveCall(call: string, how: 'use_as_is' | 'mark_done' | 'run_again'): Promise<boolean> {
    const id = this.session()!.id;
    return this.#act(() => api.resolveCall(id, call, how));
  }

  /** Answers about a tool call that has not started. What another tab has decided stands. */
  answerCall(call: string, approve: boolean, reason: string): Promise<boolean> {
    const id = this.session()!.id;
    return this.#act(() => (approve ? api.approveCall(id, call) : api.denyCall(id, call, reason)));
  }

  setModel(model: string): Promise<boolean> {
    const id = this.session()!.id;
    return this.#act(() => api.setModel(id, model));
  }

  /** Sets what the session may cost at most, in billionths of a US dollar; 0: no limit. */
  async setLimit(spend_limit: number): Promise<void> {
    const s = this.session()!;
    if (await this.#act(() => api.patchSession(s.id, { settings: { ...s.settings, spend_limit } }))) this.#set({ dialog: null });
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

  /** Shows the attempts at the reply to an operator message, of the version that is in view; empty: closes them. */
  showAttempts(of: string): void {
    const route = this.app.route;
    if (route.name !== 'session') return;
    const next = { ...route, attempts: of };
    this.#set({ route: next });
    // To close what was opened from here is to go back; of a link that led here it is not.
    if (!of && history.state === opened) history.back();
    else if (of && !route.attempts) history.pushState(opened, '', addressOf(next));
    else history.replaceState(of ? history.state : null, '', addressOf(next));
    this.#completeHistory();
  }

  show(dialog: Dialog): void {
    this.#set({ dialog });
  }

  closeDialog(): void {
    this.#set({ dialog: null });
  }

  /** Tells of something that went wrong in the page itself. */
  failed(error: string): void {
    this.showAttempts('');
    this.#set({ error, dialog: null });
  }

  dismissError(): void {
    this.#set({ error: '' });
  }
}

const samePreview = (a: Preview, b: Preview): boolean =>
  a.superseded === b.superseded && a.replies === b.replies && a.later === b.later && a.pending === b.pending && JSON.stringify(a.effects) === JSON.stringify(b.effects);
