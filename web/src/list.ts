import { waits, type Session } from './types';
import { rowState, type RowState } from './view';
import { className, count, evidenceWords, waitWords } from './words';

// What the session list says and shows. Pure: now is the server's time.

export type Filter = 'all' | 'running' | 'waiting' | 'needs-you';

export const filters: readonly { filter: Filter; name: string; none: string }[] = [
  { filter: 'all', name: 'All', none: 'No sessions yet.' },
  { filter: 'running', name: 'Running', none: 'Nothing is running.' },
  { filter: 'waiting', name: 'Waiting', none: 'No retry waits.' },
  { filter: 'needs-you', name: 'Needs you', none: 'Nothing needs you.' },
];

/** The filter, besides All, that a session is found under; a queued one is on its way to run. */
export const filterOf = (state: RowState): Filter => (state === 'queued' ? 'running' : state === 'running' || state === 'waiting' || state === 'needs-you' ? state : 'all');

export const shows = (filter: Filter, s: Session): boolean => filter === 'all' || filterOf(rowState(s)) === filter;

export function tally(sessions: Session[]): Record<Filter, number> {
  const n: Record<Filter, number> = { all: sessions.length, running: 0, waiting: 0, 'needs-you': 0 };
  for (const s of sessions) {
    const f = filterOf(rowState(s));
    if (f !== 'all') n[f]++;
  }
  return n;
}

/** A row's state in words; empty: idle. */
export function stateWords(s: Session, state: RowState, now: number): string {
  switch (state) {
    case 'idle':
      return '';
    case 'running':
      return s.last_run?.cancel_requested ? 'stopping…' : 'running';
    case 'waiting':
      return waitWords(s.schedule!, now);
    case 'needs-you':
      return 'needs you';
  }
  return state;
}

/** Why a session needs the operator. */
export function need(s: Session): string {
  const sch = s.schedule;
  if (s.asks) return `asks about ${count(s.asks, 'tool call')}`;
  if (sch && waits(sch)) return sch.hold_reason === 'asks' ? 'asks before a retry' : 'ready to retry';
  if (sch?.state === 'exhausted') return `stopped after ${count(sch.attempt, 'attempt')}`;
  const run = s.last_run;
  if (run?.recovery && !run.recovery.replay_safe) return evidenceWords(run.recovery.evidence);
  return run?.failure ? className(run.failure.retry_class) : '';
}
