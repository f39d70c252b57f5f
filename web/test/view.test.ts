import { describe, expect, test } from 'vitest';
import { announce } from '../src/announce';
import { empty, reduce, type State } from '../src/state';
import type { Failure, Recovery, ServerEvent } from '../src/types';
import { callState, ordered, phase, rowState, turnsOf } from '../src/view';
import { headline, safeToRepeat, took, worthRetrying } from '../src/words';
import { attempt, event, message, output, reply, run, session, snapshot, text } from './make';

const play = (...events: ServerEvent[]): State => events.reduce((s, e) => reduce(s, e, 0), empty);
const phaseOf = (s: State, now = 0) => phase(s.focus, s.sessions.ses_1, now);

const overloaded: Failure = { retryable: true, retry_class: 'overloaded', message: 'Overloaded', model: 'alpha/large', status: 529 };
const clean: Recovery = { auto: true, verb: 'regenerate', replay_safe: true, evidence: [], reason: 'eligible_and_safe', choices: ['regenerate', 'keep'] };
const shown: Recovery = { ...clean, auto: false, replay_safe: false, evidence: ['text_shown'], reason: 'not_safe' };

describe('phase', () => {
  const running = [snapshot(), event('run', { run: run() })];
  test('follows the run', () => {
    expect(phaseOf(play(snapshot())).kind).toBe('idle');
    expect(phaseOf(play(snapshot(), event('run', { run: run({ state: 'queued' }) }))).kind).toBe('queued');
    expect(phaseOf(play(...running)).kind).toBe('connecting');
    expect(phaseOf(play(...running, output(1, [{ kind: 'thinking', text: 'x' }]))).kind).toBe('thinking');
    expect(phaseOf(play(...running, output(1, [text('x')]))).kind).toBe('writing');
    expect(phaseOf(play(...running, event('run', { run: run({ cancel_requested: true }) }))).kind).toBe('stopping');
    expect(phaseOf(play(...running, event('run', { run: run({ state: 'cancelled', cancel_requested: true }) }))).kind).toBe('idle');
  });

  test('waits until the decision says, by the server clock', () => {
    const s = play(...running, event('attempt', { attempt: attempt() }));
    expect(phaseOf(s, 3999)).toMatchObject({ kind: 'waiting', until: 4000 });
    expect(phaseOf(s, 4000).kind).toBe('connecting');
  });

  test('holding counts, a running tool has its name', () => {
    const held: ServerEvent = { type: 'progress', session_id: 'ses_1', progress: { run_id: 'run_1', characters: 7, call: true } };
    expect(phaseOf(play(...running, held))).toEqual({ kind: 'holding', characters: 7, call: true });
    const call = { session_id: 'ses_1', run_id: 'run_1', step: 0, call_id: 'c', name: 'clock', arguments: '', state: 'started', effect: false, started_at: 1 };
    expect(phaseOf(play(...running, event('tool_call', { tool_call: call })))).toEqual({ kind: 'tool', name: 'clock' });
  });
});

describe('turns', () => {
  test('group a reply with the message that it answers', () => {
    const s = play(snapshot({ messages: [message(), reply('a'), reply('b', { id: 'msg_3', position: 3, step: 1 }), message({ id: 'msg_4', position: 4 })] }));
    expect(turnsOf(s.focus!, s.sessions.ses_1).map((t) => [t.operator?.id, t.rows.map((r) => r.id)])).toEqual([
      ['msg_1', ['msg_2', 'msg_3']],
      ['msg_4', []],
    ]);
  });

  test('live output belongs to the last turn, beside the version that it replaces', () => {
    const s = play(
      snapshot({ messages: [message(), reply('old')] }),
      event('superseded', { superseded: { anchor: 'msg_1', by: 'run_2', messages: ['msg_2'] } }),
      event('run', { run: run({ id: 'run_2' }) }),
      output(1, [text('new')], { run_id: 'run_2' }),
    );
    const [t] = turnsOf(s.focus!, s.sessions.ses_1);
    expect(t).toMatchObject({ rows: [], last: true });
    expect(t!.versions.map((v) => v.rows.map((m) => m.id))).toEqual([['msg_2']]);
    expect(t!.live.length).toBe(1);
  });
});

test.each([
  [{ cut: true }, undefined, true, 'call cut off, not run'],
  [{}, { state: 'started' }, false, 'running'],
  [{}, { state: 'started' }, true, 'outcome unknown'],
  [{}, { state: 'unknown' }, true, 'outcome unknown'],
  [{}, { state: 'ended', result: { kind: 'tool_result', is_error: true } }, false, 'failed'],
  [{}, { state: 'ended', result: { kind: 'tool_result' } }, false, 'done'],
  [{}, undefined, false, 'waiting'],
  [{}, undefined, true, 'not run'],
])('the call %j with the record %j (over: %s) is %s', (part, call, over, state) => {
  expect(callState({ kind: 'tool_call', ...part }, call as never, undefined, over).state).toBe(state);
});

test('the list puts first who needs the operator', () => {
  const s = play(
    snapshot({
      sessions: [
        session({ id: 'idle', updated_at: 9 }),
        session({ id: 'running', state: 'running', last_run: run() }),
        session({ id: 'needs', last_run: run({ state: 'failed', failure: overloaded, recovery: shown }) }),
        session({ id: 'failed', updated_at: 3, last_run: run({ state: 'failed', failure: overloaded, recovery: clean }) }),
        session({ id: 'cancelled', updated_at: 4, last_run: run({ state: 'cancelled' }) }),
      ],
      session: undefined,
    }),
  );
  expect(ordered(s).map((x) => [x.id, rowState(x)])).toEqual([
    ['needs', 'needs-you'],
    ['running', 'running'],
    ['idle', 'idle'],
    ['cancelled', 'cancelled'],
    ['failed', 'failed'],
  ]);
});

describe('words', () => {
  test('what took less than a tenth of a second did not take none', () => {
    expect([0, 0.4, 38, 99.4, 100, 12_000].map(took)).toEqual(['0 ms', '0 ms', '38 ms', '99 ms', '0.1 s', '12 s']);
  });

  test('both verdicts stay apart', () => {
    expect([worthRetrying(overloaded), safeToRepeat(shown)]).toEqual([
      { yes: true, why: 'overloaded' },
      { yes: false, why: 'text was shown' },
    ]);
    expect(safeToRepeat(clean)).toEqual({ yes: true, why: 'nothing had been shown' });
    expect(safeToRepeat({ ...clean, verb: 'resume' }).why).toBe('nothing of the failed step had been shown');
    expect(headline(overloaded)).toBe('large is overloaded (529).');
  });
});

describe('announcements', () => {
  const said = (...events: ServerEvent[]) => {
    let state = reduce(empty, snapshot(), 0);
    return events.flatMap((e) => {
      const before = state;
      state = reduce(state, e, 0);
      const s = announce(before, state);
      return s.status ?? s.alert ?? [];
    });
  };

  test('a reply is spoken at its boundaries only', () => {
    expect(
      said(event('run', { run: run({ state: 'queued' }) }), event('run', { run: run() }), output(1, [text('One.\n\n')]), output(2, [text('Two.')]),
        event('message', { message: reply('One.\n\nTwo.') }), event('run', { run: run({ state: 'succeeded' }) })),
    ).toEqual(['Queued', 'Replying', 'Reply complete, 2 paragraphs']);
  });

  test('a back-off is spoken once, a stop as stopped', () => {
    expect(said(event('run', { run: run() }), event('attempt', { attempt: attempt() }), event('run', { run: run({ state: 'cancelled' }) }))).toEqual([
      'Replying', 'Attempt 1 failed: overloaded. Trying again in 2.0 s. Press Escape to stop.', 'Stopped',
    ]);
  });

  test('a failure is an alert that says what was kept', () => {
    expect(
      said(event('run', { run: run() }), event('message', { message: reply('part', { interrupted: 'stream_interrupted' }) }), event('run', { run: run({ state: 'failed', failure: overloaded, recovery: shown }) })),
    ).toEqual(['Replying', 'large is overloaded (529). Reply interrupted, kept.']);
  });

  test('opening a session says nothing', () => {
    expect(announce(empty, reduce(empty, snapshot(), 0))).toEqual({});
  });
});

// K-153: what Reprise says of a conversation stands where it was said, and ends no step.
test('a notice is a row of the reply, and leaves what is being written alone', () => {
  const notice = message({ id: 'msg_9', position: 2, role: 'notice', step: -1, parts: [{ kind: 'notice', text: 'The conversation had become too long.' }] });
  const s = play(snapshot(), event('run', { run: run() }), output(1, [text('Hel')]), event('message', { message: notice }));
  const turn = turnsOf(s.focus!, session({ last_run: run() })).at(-1)!;
  expect(turn.rows.map((m) => m.id)).toEqual(['msg_9']);
  expect(turn.live).toHaveLength(1);
});
