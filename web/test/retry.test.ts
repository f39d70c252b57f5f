import { describe, expect, test } from 'vitest';
import { announce, marks } from '../src/announce';
import { retryBar, spoken, type Bar } from '../src/retry';
import { empty, reduce, type State } from '../src/state';
import type { Schedule, ServerEvent } from '../src/types';
import { ordered, rowState } from '../src/view';
import { countdown, span, waitWords } from '../src/words';
import { event, message, run, schedule, session, snapshot } from './make';

const overloaded = { retryable: true, retry_class: 'overloaded', message: 'Overloaded', model: 'alpha/large', status: 529 } as const;
const failed = run({ state: 'failed', failure: overloaded, steps: 3 });
const min = 60_000;

/** What the bar reads, its buttons in brackets. */
function reads(b: Bar | null): string {
  if (!b) return '';
  const time = b.timer ? ` ${b.timer}` : b.at ? ` T+${b.at / 1000}` : '';
  return `${b.text}${time}${b.rest}${b.notes.map((n) => ` / ${n}`).join('')}${b.attempts ? ' [Attempts]' : ''}${b.main ? ` [${b.main}]` : ''} [${b.other}]`;
}

test.each<[string, Partial<Schedule>, string]>([
  ['armed', {}, 'large is overloaded. Trying again in 8 s. / attempt 4 / nothing had been shown [Try now] [Cancel retry]'],
  ['armed, with a limit', { max_attempts: 6 }, 'large is overloaded. Trying again in 8 s. / attempt 4 of 6 / nothing had been shown [Try now] [Cancel retry]'],
  ['armed, behind finished steps', { verb: 'resume' }, 'large is overloaded. Trying again in 8 s. / attempt 4 / goes on after step 3; nothing is run twice [Try now] [Cancel retry]'],
  ['scheduled', { state: 'scheduled', retry_class: 'rate_limited', next_at: 49 * min }, 'Rate limited. Retry after T+2940 · in 49 min. The countdown is paused until then. [Try now] [Cancel retry]'],
  ['held', { state: 'held', next_at: -5 }, 'Ready. Waiting for you to look. / attempt 4 / nothing had been shown [Try now] [Cancel retry]'],
  ['due', { next_at: 0 }, 'Starting attempt 4… [Cancel]'],
  ['cancelled', { state: 'cancelled' }, 'Retry cancelled. Nothing will start by itself. [Retry] [Dismiss]'],
  ['cancelled by another model', { state: 'cancelled', reason: 'model' }, 'Retry cancelled: you chose another model. Nothing will start by itself. [Retry] [Dismiss]'],
  ['cancelled by the archive', { state: 'cancelled', reason: 'archived' }, 'Retry cancelled: the session was archived. Nothing will start by itself. [Retry] [Dismiss]'],
  ['exhausted', { state: 'exhausted', attempt: 6, since: 1, updated_at: 12 * min + 1 }, 'Stopped after 6 attempts in 12 min. Last: overloaded (529). [Attempts] [Retry] [Dismiss]'],
  ['exhausted at once', { state: 'exhausted', attempt: 1, since: 1, updated_at: 1 }, 'Stopped after 1 attempt. Last: overloaded (529). [Attempts] [Retry] [Dismiss]'],
  ['never, not safe', { state: 'never', replay_safe: false, not_before: 90 * min, reason: 'not_safe' }, ''],
  ['never, no time stated', { state: 'never', reason: 'not_eligible' }, ''],
  ['never, a far time that has passed', { state: 'never', reason: 'far_reset', not_before: -1000 }, 'large asked to wait until T+-1. Nothing is scheduled. [Retry] [Dismiss]'],
  ['never, a quota that may be there again', { state: 'never', retry_class: 'quota_exhausted', not_before: -1000 }, 'The plan limit is used up. It was to reset T+-1. Nothing is scheduled. [Retry] [Dismiss]'],
  ['never, a far time', { state: 'never', reason: 'far_reset', not_before: 120 * min }, 'large asked to wait until T+7200. Nothing is scheduled. [Schedule it] [Dismiss]'],
  ['never, a quota', { state: 'never', retry_class: 'quota_exhausted', not_before: 13 * 60 * min }, 'The plan limit is used up. It resets T+46800 · in 13 h. Nothing is scheduled. [Schedule it] [Dismiss]'],
])('the bar: %s', (_, s, says) => {
  expect(reads(retryBar(schedule(s), failed, false, 0))).toBe(says);
});

test('a start that was asked for shows at once, whatever the state', () => {
  for (const state of ['armed', 'scheduled', 'held', 'cancelled', 'exhausted']) {
    expect(reads(retryBar(schedule({ state }), failed, true, 0))).toBe('Starting attempt 4… [Cancel]');
  }
});

test('without the failed run the class is all there is to say', () => {
  expect(retryBar(schedule({ retry_class: 'network' }), run({ id: 'run_9' }), false, 0)!.text).toBe('Network failure. Trying again in');
});

test('a countdown reads whole seconds and never 0 before its time', () => {
  expect([8000, 7999, 7001, 7000, 1, 0, -5, 99_000, 100_000, 300_000].map(countdown)).toEqual([
    '8 s', '8 s', '8 s', '7 s', '1 s', '0 s', '0 s', '99 s', '1 min 40 s', '5 min 00 s',
  ]);
  expect([8000, 89_000, 90_000, 49 * min, 89 * min, 13 * 60 * min, 72 * 60 * min].map(span)).toEqual(['8 s', '89 s', '2 min', '49 min', '89 min', '13 h', '3 days']);
});

test('the list: who needs you, who runs, who waits, the next to start first', () => {
  const s = (id: string, o: Partial<Schedule>) => session({ id, last_run: failed, schedule: schedule({ session_id: id, ...o }) });
  const state = reduce(
    empty,
    snapshot({
      sessions: [
        s('stopped', { state: 'cancelled' }),
        s('later', { state: 'scheduled', next_at: 90 }),
        s('soon', { next_at: 50 }),
        session({ id: 'running', state: 'running', last_run: run() }),
        s('held', { state: 'held' }),
        s('spent', { state: 'exhausted' }),
      ],
      session: undefined,
    }),
    0,
  );
  expect(ordered(state).map((x) => [x.id, rowState(x)])).toEqual([
    ['spent', 'needs-you'],
    ['held', 'needs-you'],
    ['running', 'running'],
    ['soon', 'waiting'],
    ['later', 'waiting'],
    ['stopped', 'failed'],
  ]);
});

test('the words of a list', () => {
  expect([schedule(), schedule({ next_at: 0 })].map((s) => waitWords(s, 0))).toEqual(['retry in 8 s', 'starting…']);
  expect(waitWords(schedule({ state: 'scheduled', next_at: 49 * min }), 0)).toMatch(/^retry after \S+/);
});

describe('what is said', () => {
  const recovery = { auto: true, verb: 'regenerate', replay_safe: true, evidence: [], reason: '', choices: [] };
  const play = (...events: ServerEvent[]) => events.reduce((s, e) => reduce(s, e, Date.now()), empty);
  const at = (s: State): State => ({ ...s, clock: 0 });
  const say = (...events: ServerEvent[]) => announce(at(play(...events.slice(0, -1))), at(play(...events)));
  const start = () => [snapshot(), event('run', { run: run() }), event('run', { run: { ...failed, recovery } })];
  const armed = (o: Partial<Schedule> = {}) => event('schedule', { schedule: schedule({ next_at: Date.now() + min, ...o }) });

  test('the failure leaves the word to its schedule, which is said once', () => {
    expect(say(...start())).toEqual({});
    expect(say(...start(), armed())).toEqual({ status: 'large is overloaded. Trying again in 60 seconds. Press Escape to cancel.' });
    expect(say(...start(), armed(), armed())).toEqual({});
  });

  test('a wait that changes by more than a fifth is another one', () => {
    const next_at = Date.now() + min;
    expect(say(...start(), armed({ next_at }), armed({ next_at: next_at + 6000 }))).toEqual({});
    expect(say(...start(), armed({ next_at }), armed({ next_at: next_at + 30_000 })).status).toContain('in 90 seconds');
    const before = start();
    const due = armed({ next_at: Date.now() - 5 });
    expect(say(...before, due, event('session', { session: { ...session({ last_run: { ...failed, recovery } }), schedule: due.schedule } }))).toEqual({});
  });

  test('its other states', () => {
    const status = (o: Partial<Schedule>) => say(...start(), armed(), armed(o));
    expect(status({ state: 'cancelled' })).toEqual({ status: 'Retry cancelled. Nothing will start by itself.' });
    expect(status({ state: 'exhausted', since: 1, updated_at: 1 }).alert).toBe('Stopped after 3 attempts. Last: overloaded (529).');
    expect(status({ state: 'never', next_at: 0 }).alert).toBe('The retry does not start by itself any more.');
    const start4 = run({ id: 'run_2', state: 'queued', trigger: 'retry', attempt: 4 });
    expect(say(...start(), armed(), event('schedule', {}), event('run', { run: start4 }))).toEqual({ status: 'Starting attempt 4' });
  });

  test('f37: a message that ends the wait says so, once', () => {
    const ended = () => event('schedule', { schedule: schedule({ state: 'cancelled', reason: 'message' }) });
    expect(say(...start(), armed(), ended())).toEqual({ status: 'Retry cancelled: you sent a new message.' });
    const before = play(...start(), armed());
    const next = run({ id: 'run_2', message_id: 'msg_9' });
    const after = [ended(), event('schedule', {}), event('message', { message: message({ id: 'msg_9', position: 3 }) }), event('run', { run: next })].reduce((s, e) => reduce(s, e, 0), before);
    expect(announce(before, after)).toEqual({ status: 'Retry cancelled: you sent a new message. Replying' });
    expect(say(...start(), armed(), ended(), event('schedule', {}), event('run', { run: next }))).toEqual({ status: 'Replying' });
  });

  test('a far time is said with its distance', () => {
    expect(spoken(schedule({ state: 'scheduled', retry_class: 'rate_limited', next_at: 49 * min }), failed, 0)).toMatch(
      /^Rate limited\. Retry after .+, in 49 min\. The countdown is paused until then\. Press Escape to cancel\.$/,
    );
  });

  test('then at 30 s and at 10 s, and never each second', () => {
    expect(marks(schedule({ next_at: 60_000 }), 0)).toEqual([
      { wait: 30_000, text: 'Trying again in 30 seconds.' },
      { wait: 50_000, text: 'Trying again in 10 seconds.' },
    ]);
    expect(marks(schedule({ next_at: 10_500 }), 0)).toEqual([]);
    expect(marks(schedule({ state: 'scheduled', next_at: 600_000 }), 0)).toEqual([{ wait: 300_000, text: 'Trying again in 5 minutes.' }]);
    // A browser's timer cannot wait a month: it would fire at once.
    expect(marks(schedule({ state: 'scheduled', next_at: 40 * 86_400_000 }), 0)).toEqual([]);
    for (const state of ['held', 'cancelled', 'never']) expect(marks(schedule({ state, next_at: 600_000 }), 0)).toEqual([]);
  });
});
