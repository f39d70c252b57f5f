import { fold, nothing, type Folded } from './output';
import { ended, type Attempt, type Call, type Message, type Output, type Pending, type Progress, type Run, type Schedule, type ServerEvent, type Session, type Snapshot, type System, type ToolProgress } from './types';

// What the server has said, as a pure reduction of its events. Nothing here is a guess of the
// page: what the operator does shows when the server confirms it.

export interface State {
  sessions: Record<string, Session>; // archived ones too, where this page has met them
  system: System | null;
  focus: Focus | null; // the session that the stream was asked for
  clock: number; // what to add to this machine's time for the server's, in milliseconds
  gap: boolean; // output was missed: only a new snapshot helps
}

export interface Focus {
  id: string;
  messages: Message[]; // in the model's context, by position
  pending: Pending[];
  attempts: Attempt[]; // of the last run, as far as they were told
  calls: Call[];
  subs: Session[]; // the subagents' sessions, oldest first
  live: Live | null;
  progress: Progress | null;
  old: Message[]; // superseded, by position, as far as they are known
  runs: Record<string, Run>; // as far as they are known
  whole: boolean; // old and runs were read: they are all that there is
  heard: number; // when the run last showed life, this machine's time
}

/** Output that no committed message holds yet. */
export interface Live {
  run: string;
  generation: number;
  seq: number;
  steps: LiveStep[];
}

export interface LiveStep extends Folded {
  step: number;
}

export const empty: State = { sessions: {}, system: null, focus: null, clock: 0, gap: false };

/** Gives the state after an event. now is this machine's time; the same object means that nothing changed. */
export function reduce(state: State, event: ServerEvent, now: number): State {
  switch (event.type) {
    case 'snapshot':
      return event.snapshot ? fromSnapshot(state, event.snapshot, now) : state;
    case 'system':
      return event.system ? { ...state, system: event.system, clock: event.system.now - now } : state;
    case 'output':
      return withFocus(state, event.session_id, (f) => output(state, f, event.output!, now));
    case 'progress':
      return withFocus(state, event.session_id, (f) => ({
        ...state,
        focus: { ...f, progress: event.progress!.characters > 0 || event.progress!.call ? event.progress! : null, heard: now },
      }));
    case 'tool_progress':
      return withFocus(state, event.session_id, (f) => ({ ...state, focus: { ...f, calls: far(f.calls, event.tool_progress!), heard: now } }));
    default:
      return lifecycle(state, event, now);
  }
}

const far = (calls: Call[], progress: ToolProgress): Call[] =>
  calls.map((c) => (c.run_id === progress.run_id && c.step === progress.step && c.call_id === progress.call_id && c.state === 'started' ? { ...c, progress } : c));

function fromSnapshot(state: State, s: Snapshot, now: number): State {
  const sessions: Record<string, Session> = {};
  for (const one of [...(s.sessions ?? []), ...(s.children ?? [])]) sessions[one.id] = one;
  let focus: Focus | null = null;
  if (s.session) {
    sessions[s.session.id] = s.session;
    for (const one of s.children ?? []) sessions[one.id] = one;
    const was = state.focus?.id === s.session.id ? state.focus : null;
    focus = {
      id: s.session.id,
      messages: s.messages ?? [],
      pending: s.pending ?? [],
      attempts: s.attempts ?? [],
      subs: (s.children ?? []).filter((c) => c.parent?.session_id === s.session!.id),
      calls: (s.tool_progress ?? []).reduce(far, s.tool_calls ?? []),
      live: s.output ? begin(s.output) : null,
      progress: s.progress ?? null,
      // What was superseded stays so: only what the page has missed is read again.
      old: was?.old ?? [],
      runs: { ...was?.runs, ...(s.session.last_run ? { [s.session.last_run.id]: s.session.last_run } : {}) },
      whole: false,
      heard: now,
    };
  }
  return { sessions, system: s.system, focus, clock: s.system.now - now, gap: false };
}

/** Whether something was superseded that this page was not told of. */
export function lacksHistory(f: Focus, session: Session | undefined): boolean {
  if (f.whole) return false;
  const top = Math.max(f.messages.at(-1)?.position ?? 0, f.old.at(-1)?.position ?? 0);
  // A position that is not there belongs to a message that was superseded; a run that was not
  // started by a message has superseded some, which show no gap before its first row.
  return top > f.messages.length + f.old.length || (session?.last_run?.trigger ?? 'message') !== 'message';
}

/** Takes a session's whole history and its runs. What events have told meanwhile is newer. */
export function withHistory(state: State, id: string, messages: Message[], runs: Run[]): State {
  return withFocus(state, id, (f) => {
    const known = new Set([...f.messages, ...f.old].map((m) => m.id));
    const old = [...f.old, ...messages.filter((m) => m.superseded_by && !known.has(m.id))].sort((a, b) => a.position - b.position);
    const all = { ...Object.fromEntries(runs.map((r) => [r.id, r])), ...f.runs };
    for (const { id, spend } of runs) all[id] = { ...all[id]!, spend: all[id]!.spend ?? spend };
    return { ...state, focus: { ...f, old, runs: all, whole: true } };
  });
}

function begin(o: Output): Live {
  return { run: o.run_id, generation: o.generation, seq: o.seq, steps: [{ step: o.step, ...fold(nothing, o.events ?? []) }] };
}

function withFocus(state: State, session: string | undefined, f: (focus: Focus) => State): State {
  return state.focus && (!session || state.focus.id === session) ? f(state.focus) : state;
}

function output(state: State, f: Focus, o: Output, now: number): State {
  const put = (live: Live): State => ({ ...state, focus: { ...f, live, progress: null, heard: now } });
  const committed = f.messages.some((m) => m.run_id === o.run_id && m.role === 'reply' && m.step >= o.step);
  const live = f.live;
  if (!live || live.run !== o.run_id || live.generation < o.generation) {
    return committed ? state : put(begin(o));
  }
  if (live.generation > o.generation || o.seq <= live.seq) return state;
  if (o.seq > live.seq + 1) return { ...state, gap: true };
  if (committed) return put({ ...live, seq: o.seq });
  const last = live.steps.at(-1);
  const steps =
    last?.step === o.step
      ? [...live.steps.slice(0, -1), { step: o.step, ...fold(last, o.events ?? []) }]
      : [...live.steps, { step: o.step, ...fold(nothing, o.events ?? []) }];
  return put({ ...live, seq: o.seq, steps });
}

function lifecycle(state: State, event: ServerEvent, now: number): State {
  const id = event.session_id ?? event.session?.id ?? '';
  const known = state.sessions[id];
  if (known && event.revision && event.revision <= known.revision) return state;
  let session = event.session ?? known;
  if (!session) return state; // a session that this page was never told of
  if (event.session && !event.session.last_run && known?.last_run) session = { ...session, last_run: known.last_run, state: known.state };
  const at = event.at ?? session.updated_at;
  session = { ...session, revision: event.revision ?? session.revision, updated_at: Math.max(at, session.updated_at) };
  if (event.run) session = withRun(session, event.run);
  if (event.type === 'schedule') session = scheduled(session, event.schedule);
  const sessions = { ...state.sessions, [id]: session };
  let focus = state.focus;
  if (focus?.id === id) focus = focused(focus, event, session, now);
  else if (focus && session.parent?.session_id === focus.id) focus = { ...focus, subs: [...focus.subs.filter((s) => s.id !== id), session].sort((a, b) => a.created_at - b.created_at) };
  return { ...state, sessions, focus };
}

/** Takes a schedule that came with an answer: it may be newer than the events. */
export function withSchedule(state: State, schedule: Schedule): State {
  const s = state.sessions[schedule.session_id];
  if (!s || (s.schedule?.token ?? 0) >= schedule.token) return state;
  return { ...state, sessions: { ...state.sessions, [s.id]: scheduled(s, schedule) } };
}

// A run that begins is the session's last one; one that ends is only if no newer one began.
function withRun(s: Session, run: Run): Session {
  if (ended(run) && s.last_run && s.last_run.id !== run.id && !ended(s.last_run)) return s;
  const state = run.state === 'queued' || run.state === 'running' ? run.state : 'idle';
  return { ...s, last_run: run, state };
}

function scheduled({ schedule: _, ...s }: Session, schedule: Schedule | undefined): Session {
  return schedule ? { ...s, schedule } : s;
}

function focused(f: Focus, event: ServerEvent, session: Session, now: number): Focus {
  switch (event.type) {
    case 'message': {
      const m = event.message!;
      const messages = [...f.messages.filter((o) => o.id !== m.id), m].sort((a, b) => a.position - b.position);
      const live = f.live && m.role === 'reply' && f.live.run === m.run_id ? without(f.live, m.step) : f.live;
      return { ...f, messages, live, pending: f.pending.filter((p) => p.message_id !== m.id) };
    }
    case 'run': {
      const run = event.run!;
      f = { ...f, runs: { ...f.runs, [run.id]: run } };
      if (session.last_run?.id !== run.id) return f;
      const same = f.attempts[0]?.run_id === run.id;
      const kept = f.calls.filter((c) => c.run_id === run.id);
      return { ...f, attempts: same ? f.attempts : [], calls: kept, progress: null, heard: now };
    }
    case 'attempt': {
      const a = event.attempt!;
      const others = f.attempts.filter((o) => o.run_id === a.run_id && o.id !== a.id);
      return { ...f, attempts: [...others, a].sort((x, y) => x.number - y.number), progress: null, heard: now };
    }
    case 'tool_call': {
      const c = event.tool_call!;
      const others = f.calls.filter((o) => !(o.run_id === c.run_id && o.step === c.step && o.call_id === c.call_id));
      return { ...f, calls: [...others, c], heard: now };
    }
    case 'schedule': {
      // What ended a wait is part of the failed run's record from then on.
      const s = event.schedule;
      const run = s && f.runs[s.run_id];
      if (s?.state !== 'cancelled' || !run?.recovery) return f;
      return { ...f, runs: { ...f.runs, [run.id]: { ...run, recovery: { ...run.recovery, cancelled: s.reason } } } };
    }
    case 'pending':
      return { ...f, pending: event.pending ?? [] };
    case 'superseded': {
      const { by, messages } = event.superseded!;
      const gone = new Set(messages ?? []);
      const went = f.messages.filter((m) => gone.has(m.id)).map((m) => ({ ...m, superseded_by: by, superseded_at: event.at ?? now }));
      return {
        ...f,
        messages: f.messages.filter((m) => !gone.has(m.id)),
        old: [...f.old, ...went].sort((a, b) => a.position - b.position),
        live: f.live?.run === by ? f.live : null,
      };
    }
  }
  return f;
}

function without(live: Live, step: number): Live {
  return { ...live, steps: live.steps.filter((s) => s.step > step) };
}
