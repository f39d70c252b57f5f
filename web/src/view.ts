import { shown } from './output';
import type { Focus, LiveStep, State } from './state';
import { ended, waits, type Attempt, type Message, type Part, type Recovery, type Run, type Session, type ToolCall } from './types';
import { versions, type Version } from './versions';

// What the screen derives from the state. Pure.

const none: Version[] = [];
const idle: Run[] = [];

/** One operator message and all that answers it. */
export interface Turn {
  key: string;
  operator: Message | null;
  rows: Message[]; // replies and notices, by position
  results: Record<string, Part>; // tool results by call id
  live: LiveStep[];
  versions: Version[]; // earlier replies, oldest first
  runs: Run[]; // that answered the message, oldest first, as far as they are known
  run: Run | null; // the session's last run, where it belongs here
  recovery: Recovery | undefined; // of the run that ended it, with what came of it since
  last: boolean;
}

/** The turns of a session, with the versions that each has. */
export function turnsOf(focus: Focus, session: Session | undefined): Turn[] {
  return turns(focus, session, versions(focus.old, focus.messages, focus.runs));
}

export function turns(focus: Focus, session: Session | undefined, earlier: Record<string, Version[]>): Turn[] {
  const all: Turn[] = [];
  const answers: Record<string, Run[]> = {};
  for (const r of Object.values(focus.runs)) (answers[r.message_id] ??= []).push(r);
  for (const list of Object.values(answers)) list.sort((a, b) => a.queued_at - b.queued_at);
  const open = (operator: Message | null): Turn => {
    const id = operator?.id ?? '';
    const t: Turn = {
      key: id || 'start', operator, rows: [], results: {}, live: [], versions: earlier[id] ?? none, runs: answers[id] ?? idle, run: null, recovery: undefined, last: false,
    };
    all.push(t);
    return t;
  };
  for (const m of focus.messages) {
    if (m.role === 'operator') {
      open(m);
      continue;
    }
    const t = all.at(-1) ?? open(null);
    if (m.role === 'reply' || m.role === 'notice') t.rows.push(m);
    else for (const p of m.parts ?? []) if (p.call_id) t.results[p.call_id] = p;
  }
  for (const t of all) {
    const end = t.rows.at(-1);
    t.recovery = focus.runs[end?.run_id ?? '']?.recovery ?? end?.recovery;
  }
  const last = all.at(-1);
  if (last) {
    last.last = true;
    const run = session?.last_run;
    if (run && run.message_id === last.operator?.id) last.run = run;
    if (focus.live && (!run || focus.live.run === run.id)) last.live = focus.live.steps;
  }
  return all;
}

/** The turn of which an earlier version is shown; -1: every reply is the current one. */
export const turnInView = (all: Turn[], { version, of }: { version: number; of: string }): number =>
  version > 0 ? all.findLastIndex((t) => (of ? t.key === of : t.versions.length > 0) && version <= t.versions.length) : -1;

export type Phase =
  | { kind: 'idle' | 'queued' | 'connecting' | 'thinking' | 'writing' | 'stopping' }
  | { kind: 'holding'; characters: number; call: boolean }
  | { kind: 'tool' | 'asks'; name: string }
  | { kind: 'waiting'; attempt: Attempt; until: number }; // until: the server's time

/** What the session's run is doing. now is the server's time. */
export function phase(focus: Focus | null, session: Session | undefined, now: number): Phase {
  const run = session?.last_run;
  if (!run || ended(run)) return { kind: 'idle' };
  if (run.cancel_requested) return { kind: 'stopping' };
  if (run.state === 'queued') return { kind: 'queued' };
  if (!focus) return { kind: 'connecting' };
  const wait = backOff(focus, run, now);
  if (wait) return wait;
  if (focus.progress?.run_id === run.id) return { kind: 'holding', characters: focus.progress.characters, call: focus.progress.call };
  const call = (state: string) => focus.calls.find((c) => c.run_id === run.id && c.state === state);
  const asked = call('asked');
  if (asked) return { kind: 'asks', name: asked.name };
  const tool = call('started');
  if (tool) return { kind: 'tool', name: tool.name };
  const step = focus.live?.run === run.id ? focus.live.steps.at(-1) : undefined;
  const part = step && shown(step).at(-1);
  if (!part) return { kind: 'connecting' };
  return { kind: part.kind === 'text' ? 'writing' : 'thinking' };
}

function backOff(focus: Focus, run: Run, now: number): Phase | null {
  const attempt = focus.attempts.at(-1);
  const at = attempt?.decision?.next_at;
  if (!attempt || !at || attempt.run_id !== run.id) return null;
  const until = Date.parse(at);
  return until > now ? { kind: 'waiting', attempt, until } : null;
}

/** How a tool call stands, in one word, and whether it may have changed something. */
export function callState(part: Part, call: ToolCall | undefined, result: Part | undefined, over: boolean): { state: string; effect: boolean } {
  const effect = call?.effect ?? false;
  if (part.cut) return { state: over ? 'call cut off, not run' : 'preparing', effect: false };
  if (call?.state === 'unknown') return { state: 'outcome unknown', effect: true };
  if (call?.state === 'asked') return { state: 'asks you', effect };
  if (call?.state === 'denied') return { state: 'denied', effect: false };
  if (call?.state === 'refused') return { state: 'not run', effect: false };
  if (call?.state === 'cancelled') return { state: 'cancelled', effect };
  const answer = result ?? call?.result;
  if (answer) return { state: answer.is_error ? 'failed' : 'done', effect };
  if (call?.state === 'started') return { state: over ? 'outcome unknown' : 'running', effect };
  return { state: over ? 'not run' : 'waiting', effect: false };
}

export type RowState = 'needs-you' | 'running' | 'queued' | 'waiting' | 'interrupted' | 'failed' | 'cancelled' | 'idle';

/** The state that the session list shows. */
export function rowState(s: Session): RowState {
  const run = s.last_run;
  if (s.state === 'running') return s.asks && !run?.cancel_requested ? 'needs-you' : 'running';
  if (s.state === 'queued') return 'queued';
  switch (run?.state) {
    case 'cancelled':
      return 'cancelled';
    case 'failed':
      if (waits(s.schedule)) return s.schedule?.state === 'held' && s.schedule.hold_reason !== 'offline' ? 'needs-you' : 'waiting';
      if (s.schedule?.state === 'exhausted') return 'needs-you';
      if (run.failure?.retry_class === 'interrupted') return 'interrupted';
      return run.failure?.retryable && run.recovery?.replay_safe === false ? 'needs-you' : 'failed';
  }
  return 'idle';
}

const rank: Record<RowState, number> = { 'needs-you': 0, running: 1, queued: 1, waiting: 2, interrupted: 3, failed: 3, cancelled: 3, idle: 3 };

/** Sessions in the list's order: needs you, at work, waiting with the next to start first, the rest by last change. */
export function ordered(state: State): Session[] {
  const listed = Object.values(state.sessions).filter((s) => !s.archived && !s.parent);
  const next = (s: Session) => (rowState(s) === 'waiting' ? (s.schedule?.next_at ?? 0) : 0);
  return listed.sort(
    (a, b) => rank[rowState(a)] - rank[rowState(b)] || next(a) - next(b) || b.updated_at - a.updated_at || (a.id < b.id ? 1 : -1),
  );
}
