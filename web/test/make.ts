import type { Attempt, Message, Preview, Run, Schedule, ServerEvent, Session, Snapshot, StreamEvent } from '../src/types';

// What the server would say, with defaults for all that a test does not speak of.

export const session = (o: Partial<Session> = {}): Session => ({
  id: 'ses_1', title: 'A session', model: 'alpha/large', settings: {}, archived: false, paused: false, actor: 'operator',
  created_at: 1, updated_at: 1, revision: 1, state: 'idle', spend: { amount: 0, at_least: false }, ...o,
});

export const run = (o: Partial<Run> = {}): Run => ({
  id: 'run_1', session_id: 'ses_1', message_id: 'msg_1', state: 'running', trigger: 'message', actor: 'operator', model: 'alpha/large',
  origin: {}, generation: 1, claims: 1, steps: 0, requests: 1, queued_at: 1, ...o,
} as Run);

export const message = (o: Partial<Message> = {}): Message => ({
  id: 'msg_1', session_id: 'ses_1', position: 1, role: 'operator', parts: [{ kind: 'text', text: 'Hello' }], created_at: 1, run_id: 'run_1', step: 0, ...o,
});

export const reply = (text: string, o: Partial<Message> = {}): Message => message({ id: 'msg_2', position: 2, role: 'reply', parts: [{ kind: 'text', text }], model: 'alpha/large', ...o });

export const attempt = (o: Partial<Attempt> = {}): Attempt => ({
  id: 'att_1', run_id: 'run_1', session_id: 'ses_1', number: 1, automatic: false, provider: 'alpha', model: 'alpha/large', opened_at: 1000, ended_at: 2000, ok: false,
  evidence: { scope: {}, attempt: 'att_1', state: 'sealed', marks: [], published: { text: 0, thinking: 0, other: 0, calls: 0 }, delivery: 'refused' },
  failure: { class: 'overloaded', retryable: true, delivery: 'refused', message: 'Overloaded', status: 529, rule: 'x' },
  decision: { eligible: true, class: 'overloaded', safe: true, evidence: [], verdict: 'retry', next_at: new Date(4000).toISOString(), rule: 'tier1' },
  ...o,
} as Attempt);

export const snapshot = (o: Partial<Snapshot> = {}): ServerEvent => ({
  type: 'snapshot',
  snapshot: {
    sessions: [session()], system: { version: '1', running: 0, queued: 0, concurrent_runs: 16, now: 0, rehearsal: false, spend: { day: { amount: 0, at_least: false } } },
    session: session(), messages: [message()], ...o,
  },
});

export const preview = (o: Partial<Preview> = {}): Preview => ({ revision: 1, superseded: 1, replies: 1, later: 0, pending: 0, effects: [], model: 'alpha/large', ...o });

export const effect = (o: Partial<Preview['effects'][number]> = {}): Preview['effects'][number] => ({
  run_id: 'run_1', call_id: 'c', name: 'send_mail', arguments: '{"to":"team"}', state: 'ended', started_at: 1, ...o,
});

let revision = 1;
/** A lifecycle event with the next revision. */
export const event = (type: string, o: Partial<ServerEvent>): ServerEvent => ({ type, session_id: 'ses_1', revision: ++revision, at: 1, ...o });

export const output = (seq: number, events: StreamEvent[], o: object = {}): ServerEvent => ({
  type: 'output', session_id: 'ses_1', output: { run_id: 'run_1', step: 0, attempt_id: 'att_1', generation: 1, seq, events, ...o },
});

export const text = (t: string, part = 0): StreamEvent => ({ kind: 'text', part, text: t });

export const schedule = (o: Partial<Schedule> = {}): Schedule => ({
  session_id: 'ses_1', anchor_message_id: 'msg_1', run_id: 'run_1', state: 'armed', verb: 'regenerate', attempt: 3, max_attempts: 0, retry_class: 'overloaded',
  chosen_by: 'backoff', next_at: 8000, since: 1, updated_at: 1, retryable: true, replay_safe: true, reason: 'eligible_and_safe', evidence: [], token: 1, ...o,
});
