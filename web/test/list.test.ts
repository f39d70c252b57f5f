import { expect, test } from 'vitest';
import { filterOf, need, shows, stateWords, tally } from '../src/list';
import { needed, notices } from '../src/notices';
import type { Recovery, Session } from '../src/types';
import { ordered, rowState } from '../src/view';
import { empty } from '../src/state';
import { run, schedule, session } from './make';

const shown: Recovery = { auto: false, verb: '', replay_safe: false, evidence: ['text_shown'], reason: 'not_safe', choices: [] };
const failed = (o: Partial<Session>, retryable = true) =>
  session({ last_run: run({ state: 'failed', failure: { retryable, retry_class: retryable ? 'overloaded' : 'auth_failed', message: '' } }), ...o });
const all: Record<string, Session> = {
  idle: session({ id: 'idle', last_run: run({ state: 'succeeded' }) }),
  running: session({ id: 'running', state: 'running', last_run: run() }),
  queued: session({ id: 'queued', state: 'queued', last_run: run({ state: 'queued' }) }),
  soon: failed({ id: 'soon', schedule: schedule({ next_at: 5000 }) }),
  late: failed({ id: 'late', schedule: schedule({ state: 'scheduled', next_at: 9_000_000 }) }),
  offline: failed({ id: 'offline', schedule: schedule({ state: 'held', hold_reason: 'offline', next_at: 1 }) }),
  held: failed({ id: 'held', schedule: schedule({ state: 'held', hold_reason: 'nobody_watching' }) }),
  asks: failed({ id: 'asks', schedule: schedule({ state: 'held', hold_reason: 'asks' }) }),
  exhausted: failed({ id: 'exhausted', schedule: schedule({ state: 'exhausted', attempt: 6 }) }),
  unsafe: session({ id: 'unsafe', last_run: run({ state: 'failed', failure: { retryable: true, retry_class: 'overloaded', message: '' }, recovery: shown }) }),
  cancelled: session({ id: 'cancelled', last_run: run({ state: 'cancelled' }) }),
  key: failed({ id: 'key' }, false),
};

// f43
test('each session is in one filter, and the counts say how many', () => {
  expect(Object.fromEntries(Object.entries(all).map(([k, s]) => [k, filterOf(rowState(s))]))).toEqual({
    idle: 'all', running: 'running', queued: 'running', soon: 'waiting', late: 'waiting', offline: 'waiting', held: 'needs-you', asks: 'needs-you', exhausted: 'needs-you',
    unsafe: 'needs-you', cancelled: 'all', key: 'all',
  });
  expect(tally(Object.values(all))).toEqual({ all: 12, running: 2, waiting: 3, 'needs-you': 4 });
  expect(Object.values(all).filter((s) => shows('waiting', s)).map((s) => s.id)).toEqual(['soon', 'late', 'offline']);
});

test('the list has what needs you first, then what runs, then what waits, the next first', () => {
  const order = ordered({ ...empty, sessions: { ...all, gone: session({ id: 'gone', archived: true }) } }).map((s) => s.id);
  expect(order.slice(0, 4).sort()).toEqual(['asks', 'exhausted', 'held', 'unsafe']);
  expect(order.slice(4, 6).sort()).toEqual(['queued', 'running']);
  expect(order.slice(6, 9)).toEqual(['offline', 'soon', 'late']);
  expect(order).not.toContain('gone');
});

test('a state is words, and what needs you says why', () => {
  const words = (s: Session) => stateWords(s, rowState(s), 1000);
  expect(['idle', 'running', 'queued', 'soon', 'offline', 'held', 'cancelled', 'key'].map((k) => words(all[k]!))).toEqual([
    '', 'running', 'queued', 'retry in 4 s', 'waits for a network', 'needs you', 'cancelled', 'failed',
  ]);
  expect(words(session({ state: 'running', last_run: run({ cancel_requested: true }) }))).toBe('stopping…');
  expect(['held', 'asks', 'exhausted', 'unsafe'].map((k) => need(all[k]!))).toEqual(['ready to retry', 'asks before a retry', 'stopped after 6 attempts', 'text was shown']);
});

// K-182: outcome, run and where to look.
test('what happens while nobody looks is told with its outcome and its place', () => {
  const before = { ses_1: session({ title: 'Fix', state: 'running', last_run: run() }) };
  const after = (s: Session) => notices(before, { ses_1: { ...s, title: 'Fix' } });
  expect(after(session({ last_run: run({ state: 'succeeded' }) }))).toEqual([
    { session: 'ses_1', run: 'run_1', outcome: 'done', title: 'Fix: done', body: 'The reply is complete.', path: '/s/ses_1' },
  ]);
  expect(after({ ...all.unsafe!, id: 'ses_1' })[0]).toMatchObject({ outcome: 'needs you', body: 'Text was shown.' });
  expect(after({ ...all.key!, id: 'ses_1' })[0]).toMatchObject({ outcome: 'failed', title: 'Fix: failed' });
  expect(after({ ...all.held!, id: 'ses_1' })[0]).toMatchObject({ outcome: 'needs you', body: 'Ready to retry.' });
});

// K-185: a retry that waits, one more failure of it, and what the operator did, are no news.
test('what goes on by itself, or was the operator’s doing, is not told', () => {
  const none = (was: Session, is: Session) => expect(notices({ [was.id]: was }, { [is.id]: is })).toEqual([]);
  none(session({ last_run: run() }), { ...all.soon!, id: 'ses_1' });
  none({ ...all.soon!, id: 'ses_1' }, failed({ schedule: schedule({ attempt: 4, token: 2 }), last_run: run({ id: 'run_2', state: 'failed', failure: { retryable: true, retry_class: 'overloaded', message: '' } }) }));
  none(session({ last_run: run() }), session({ last_run: run({ state: 'cancelled' }) }));
  none({ ...all.unsafe! }, { ...all.unsafe!, title: 'Renamed' });
  none(session({ last_run: run({ state: 'succeeded' }) }), session({ title: 'Renamed', last_run: run({ state: 'succeeded' }) }));
  none(session({ last_run: run() }), { ...all.unsafe!, id: 'ses_1', archived: true });
});

test('the title counts what needs you', () => {
  expect(needed(all)).toBe(4);
  expect(needed({ held: { ...all.held!, archived: true } })).toBe(0);
});
