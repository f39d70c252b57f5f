import { describe, expect, test } from 'vitest';
import { shown } from '../src/output';
import { empty, lacksHistory, reduce, withHistory, type State } from '../src/state';
import { textOf, type ServerEvent } from '../src/types';
import { ordered } from '../src/view';
import { attempt, event, message, output, reply, run, schedule, session, snapshot, text } from './make';

const play = (...events: ServerEvent[]): State => events.reduce((s, e) => reduce(s, e, 0), empty);
const streamed = (s: State): string => (s.focus?.live?.steps ?? []).map((step) => textOf(shown(step))).join('|');

describe('output', () => {
  test('adds up, and a committed message takes its place', () => {
    const before = play(snapshot(), event('run', { run: run() }), output(1, [text('Hel')]), output(2, [text('lo')]));
    expect(streamed(before)).toBe('Hello');
    const after = reduce(before, event('message', { message: reply('Hello') }), 0);
    expect(streamed(after)).toBe('');
    expect(after.focus!.messages.map((m) => m.id)).toEqual(['msg_1', 'msg_2']);
  });

  test('a repeat changes nothing', () => {
    const before = play(snapshot(), output(1, [text('a')]), output(2, [text('b')]));
    expect(reduce(before, output(2, [text('b')]), 0)).toBe(before);
    expect(reduce(before, output(1, [text('a')]), 0)).toBe(before);
  });

  test('goes on where the snapshot stands', () => {
    const at = { run_id: 'run_1', step: 0, attempt_id: 'a', generation: 1, seq: 7, events: [text('so far')] };
    const before = play(snapshot({ output: at }));
    expect(streamed(before)).toBe('so far');
    expect(reduce(before, output(7, [text(' again')]), 0)).toBe(before);
    expect(streamed(reduce(before, output(8, [text(', and on')]), 0))).toBe('so far, and on');
  });

  test('a missing piece asks for a snapshot, and nothing is shown out of order', () => {
    const s = play(snapshot(), output(1, [text('a')]), output(3, [text('c')]));
    expect(s.gap).toBe(true);
    expect(streamed(s)).toBe('a');
    expect(play(snapshot(), output(1, [text('a')]), output(3, [text('c')]), snapshot()).gap).toBe(false);
  });

  test('a newer generation begins anew, an older one is ignored', () => {
    const s = play(snapshot(), output(1, [text('old')]), output(1, [text('new')], { generation: 2 }));
    expect(streamed(s)).toBe('new');
    expect(reduce(s, output(2, [text('late')]), 0)).toBe(s);
  });

  test('of a step that was committed is ignored, and the next step goes on', () => {
    const s = play(
      snapshot(),
      output(1, [text('one')]),
      event('message', { message: reply('one') }),
      output(2, [{ kind: 'done', stop: 'tool_calls' }]),
      output(3, [text('two')], { step: 1 }),
    );
    expect(s.gap).toBe(false);
    expect(streamed(s)).toBe('two');
  });

  test('of a finished step stays until its row is here, also when the next one begins', () => {
    const s = play(snapshot(), output(1, [text('one')]), output(2, [text('two')], { step: 1 }));
    expect(streamed(s)).toBe('one|two');
    expect(streamed(reduce(s, event('message', { message: reply('one') }), 0))).toBe('two');
  });

  test('a failure removes nothing that was shown', () => {
    const s = play(snapshot(), event('run', { run: run() }), output(1, [text('kept')]), event('run', { run: run({ state: 'failed' }) }));
    expect(streamed(s)).toBe('kept');
  });

  test('K-141: calls, thinking and cuts fold by part', () => {
    const s = play(
      snapshot(),
      output(1, [
        { kind: 'thinking', part: 0, text: 'hm' },
        text('Look: ', 1),
        { kind: 'call_start', part: 2, id: 'c1', name: 'clock' },
        { kind: 'call_delta', part: 2, text: '{"a":' },
        { kind: 'call_delta', part: 2, text: '1}' },
        { kind: 'call_end', part: 2 },
        { kind: 'call_cut', part: 3 },
        { kind: 'interrupted', text: 'stream_interrupted' },
      ]),
    );
    expect(s.focus!.live!.steps[0]).toMatchObject({
      interrupted: 'stream_interrupted',
      parts: [
        { kind: 'thinking', text: 'hm' },
        { kind: 'text', text: 'Look: ' },
        { kind: 'tool_call', call_id: 'c1', name: 'clock', arguments: '{"a":1}', cut: false },
        { kind: 'tool_call', cut: true },
      ],
    });
  });
});

describe('lifecycle', () => {
  test('an event that is not newer is ignored', () => {
    const s = play(snapshot(), event('run', { run: run(), revision: 5 }));
    expect(reduce(s, event('run', { run: run({ state: 'failed' }), revision: 5 }), 0)).toBe(s);
    expect(reduce(s, event('run', { run: run({ state: 'failed' }), revision: 4 }), 0)).toBe(s);
    expect(reduce(s, event('run', { run: run({ state: 'failed' }), revision: 6 }), 0).sessions.ses_1!.state).toBe('idle');
  });

  test('events of other sessions change the list alone', () => {
    const other = session({ id: 'ses_2', title: 'Other' });
    const s = play(snapshot({ sessions: [session(), other] }));
    const after = reduce(s, { type: 'run', session_id: 'ses_2', revision: 9, run: run({ session_id: 'ses_2', id: 'run_9' }) }, 0);
    expect(after.sessions.ses_2!.state).toBe('running');
    expect(after.focus).toBe(s.focus);
  });

  test('a new session appears, an archived one goes', () => {
    const s = play(snapshot(), { type: 'session', session_id: 'ses_3', revision: 1, session: session({ id: 'ses_3' }) });
    expect(ordered(s).map((x) => x.id).sort()).toEqual(['ses_1', 'ses_3']);
    const gone = reduce(s, { type: 'session', session_id: 'ses_3', revision: 2, session: session({ id: 'ses_3', archived: true }) }, 0);
    expect(ordered(gone).map((x) => x.id)).toEqual(['ses_1']);
  });

  test('the end of a replaced run does not hide the one that replaced it', () => {
    const s = play(snapshot(), event('run', { run: run({ id: 'run_2', state: 'queued' }) }), event('run', { run: run({ id: 'run_1', state: 'cancelled' }) }));
    expect(s.sessions.ses_1!.last_run!.id).toBe('run_2');
    expect(s.sessions.ses_1!.state).toBe('queued');
  });

  test('superseded messages leave, and stay readable', () => {
    const s = play(
      snapshot({ messages: [message(), reply('old')] }),
      event('superseded', { superseded: { anchor: 'msg_1', by: 'run_2', messages: ['msg_2'] } }),
    );
    expect(s.focus!.messages.map((m) => m.id)).toEqual(['msg_1']);
    expect(s.focus!.old.map((m) => [m.id, m.superseded_by, m.superseded_at])).toEqual([['msg_2', 'run_2', 1]]);
    // A snapshot after a lost connection does not forget them.
    const again = reduce(s, snapshot({ messages: [message(), reply('new', { id: 'msg_3', position: 3 })] }), 0);
    expect(again.focus!.old.length).toBe(1);
    expect(lacksHistory(again.focus!, again.sessions.ses_1)).toBe(false);
  });

  const cost = (amount: number) => ({ amount, at_least: false });

  test('what was superseded before the page came is read once, and what was told meanwhile is newer', () => {
    const s = play(snapshot({ messages: [message(), reply('new', { id: 'msg_3', position: 3, run_id: 'run_2' })] }), event('run', { run: run({ id: 'run_2', state: 'succeeded' }) }));
    expect(lacksHistory(s.focus!, s.sessions.ses_1)).toBe(true);
    const history = [message(), reply('old', { superseded_by: 'run_2', superseded_at: 5 }), reply('new', { id: 'msg_3', position: 3, run_id: 'run_2', superseded_by: 'run_3' })];
    const full = withHistory(s, 'ses_1', history, [run({ state: 'failed', spend: cost(1) }), run({ id: 'run_2', state: 'running', spend: cost(2) })]);
    expect(full.focus!.old.map((m) => m.id)).toEqual(['msg_2']);
    expect(Object.values(full.focus!.runs).map((r) => [r.id, r.state])).toEqual([['run_1', 'failed'], ['run_2', 'succeeded']]);
    expect(Object.values(full.focus!.runs).map((r) => r.spend?.amount)).toEqual([1, 2]); // which only the end of a run tells of
    expect(lacksHistory(full.focus!, full.sessions.ses_1)).toBe(false);
    expect(withHistory(s, 'ses_2', history, [])).toBe(s);
  });

  test('a run that a message did not start has superseded what shows no gap yet', () => {
    const s = play(snapshot({ session: session({ last_run: run({ id: 'run_2', trigger: 'regenerate' }) }) }));
    expect(lacksHistory(s.focus!, s.sessions.ses_1)).toBe(true);
  });

  test('a pending message becomes a message once', () => {
    const pending = { message_id: 'msg_9', run_id: 'run_9', session_id: 'ses_1', rank: 1, parts: [], actor: 'o', created_at: 1 };
    const s = play(snapshot({ pending: [pending] }), event('message', { message: message({ id: 'msg_9', position: 5 }) }));
    expect(s.focus!.pending).toEqual([]);
    expect(s.focus!.messages.map((m) => m.id)).toEqual(['msg_1', 'msg_9']);
  });

  test('messages are in the order of their positions, each once', () => {
    const s = play(snapshot(), event('message', { message: reply('late', { id: 'msg_3', position: 3 }) }), event('message', { message: reply('early') }), event('message', { message: reply('early') }));
    expect(s.focus!.messages.map((m) => m.id)).toEqual(['msg_1', 'msg_2', 'msg_3']);
  });

  test('attempts belong to the last run', () => {
    const s = play(snapshot(), event('run', { run: run() }), event('attempt', { attempt: attempt() }));
    expect(s.focus!.attempts.length).toBe(1);
    expect(reduce(s, event('run', { run: run({ id: 'run_2' }) }), 0).focus!.attempts).toEqual([]);
  });

  test('progress shows until something else does', () => {
    const held: ServerEvent = { type: 'progress', session_id: 'ses_1', progress: { run_id: 'run_1', characters: 12, call: false } };
    const s = play(snapshot(), held);
    expect(s.focus!.progress!.characters).toBe(12);
    expect(reduce(s, event('attempt', { attempt: attempt() }), 0).focus!.progress).toBeNull();
    expect(reduce(s, output(1, [text('x')]), 0).focus!.progress).toBeNull();
  });

  test('lists that are null are empty', () => {
    const e = snapshot({ messages: undefined, pending: undefined }) as ServerEvent;
    Object.assign(e.snapshot!, { sessions: null, attempts: null, tool_calls: null });
    expect(play(e).focus).toMatchObject({ messages: [], pending: [], attempts: [], calls: [] });
  });
});

test('the server clock is kept', () => {
  const e = snapshot();
  e.snapshot!.system.now = 5000;
  expect(reduce(empty, e, 2000).clock).toBe(3000);
});

describe('the schedule', () => {
  const of = (s: State) => s.sessions['ses_1']!.schedule;

  test('is the session\'s, and goes with an event that has none', () => {
    const s = play(snapshot(), event('schedule', { schedule: schedule() }));
    expect(of(s)?.state).toBe('armed');
    const gone = reduce(s, event('schedule', {}), 0);
    expect(of(gone)).toBeUndefined();
    expect('schedule' in gone.sessions['ses_1']!).toBe(false);
  });

  test('comes with a snapshot, and stays when something else changes', () => {
    const one = session({ schedule: schedule({ state: 'held' }) });
    const s = play(snapshot({ sessions: [one], session: one }), event('pending', { pending: [] }));
    expect(of(s)?.state).toBe('held');
  });

  test('an older revision changes nothing', () => {
    const old = event('schedule', { schedule: schedule({ token: 1 }) });
    const s = play(snapshot(), event('schedule', { schedule: schedule({ token: 2, state: 'cancelled' }) }));
    expect(reduce(s, old, 0)).toBe(s);
  });
});
