import { expect, test } from 'vitest';
import { nextStep } from '../src/never';
import type { Failure, Recovery, ToolCall } from '../src/types';

const overloaded: Failure = { retryable: true, retry_class: 'overloaded', message: 'Overloaded', model: 'alpha/large', status: 529 };
const clean: Recovery = { auto: false, verb: 'regenerate', replay_safe: true, evidence: [], reason: 'off', choices: ['regenerate', 'keep'] };
const unsafe = (...evidence: string[]): Recovery => ({ ...clean, replay_safe: false, evidence, reason: 'not_safe' });
const call = (name: string, state: string, effect = true): ToolCall => ({ session_id: 's', run_id: 'r', step: 0, call_id: name, name, arguments: '', state, effect, started_at: 1 }) as ToolCall;
const not = (retry_class: Failure['retry_class'], message = '', o: Partial<Failure> = {}): Failure => ({ ...overloaded, retryable: false, retry_class, message, provider: 'alpha', ...o });

test.each<[string, Failure, Recovery, number, ToolCall[], string, string]>([
  ['text', overloaded, unsafe('text_shown'), 412, [], 'Not repeated by itself: part of the answer was already shown (412 characters). It is kept above.', 'Regenerate'],
  ['thinking', overloaded, unsafe('thinking_shown'), 9, [], 'Not repeated by itself: thinking was already shown (9 characters). It is kept above.', 'Regenerate'],
  ['a tool that ran', overloaded, unsafe('tool_started'), 0, [call('write_file', 'ended')], 'Not repeated by itself: write_file had already run.', 'Review effects+'],
  ['a tool of which nobody knows', overloaded, unsafe('tool_started', 'text_shown'), 0, [call('write_file', 'ended'), call('send_mail', 'unknown')], 'Not repeated by itself: send_mail may have run, its outcome is unknown.', 'Review effects+'],
  ['a tool that is not told', overloaded, unsafe('tool_started'), 0, [], 'Not repeated by itself: a tool had already run.', 'Review effects+'],
  ['a hook', overloaded, unsafe('hook_ran'), 0, [], 'Not repeated by itself: a hook had run.', 'Attempts+'],
  ['a hook of a name', overloaded, { ...unsafe('hook_ran'), hooks: ['notify'] }, 0, [], 'Not repeated by itself: the hook notify had run.', 'Attempts+'],
  ['several hooks', overloaded, { ...unsafe('hook_ran', 'provider_tool'), hooks: ['book', 'notify'] }, 0, [], 'Not repeated by itself: the hooks book, notify had run, the provider ran a tool.', 'Attempts+'],
  ['the provider', overloaded, unsafe('remote_effect_unknown'), 0, [], 'Not repeated by itself: the provider may have acted.', 'Attempts+'],
  ['no record', overloaded, unsafe('evidence_missing'), 0, [], 'Not repeated by itself: no reliable record of what this attempt did.', 'Attempts+'],
  ['a timer that effects refused', overloaded, { ...clean, reason: 'effects_not_confirmed' }, 0, [], 'Not repeated by itself: tools have changed something, and may change it again.', 'Review effects+'],
  ['auth_failed', not('auth_failed'), clean, 0, [], 'Not repeated by itself: the key must be put right first, where the server reads it. Another model may have another key.', 'Change model+'],
  ['permission_denied', not('permission_denied', 'Not for this project. Ask your admin.'), clean, 0, [], 'Not repeated by itself: the key may not do this. alpha said: Not for this project.', 'Change model+'],
  ['credentials_unresolved', not('credentials_unresolved'), clean, 0, [], 'Not repeated by itself: the server has no key for this model.', 'Change model+'],
  ['quota_exhausted', not('quota_exhausted'), clean, 0, [], 'Not repeated by itself: the plan limit is used up, and nobody said when it resets.', 'Change model+'],
  ['our limit', not('spend_limit_exceeded', 'The session has a limit of $5.00, of which $0.10 is left. Raise it.', { provider: '', code: 'session_limit' }), clean, 0, [], 'The session has a limit of $5.00, of which $0.10 is left.', 'Raise limit+'],
  ['the limit of the day', not('spend_limit_exceeded', 'The day has a limit of $5.00.', { provider: '', code: 'day_limit' }), clean, 0, [], 'The day has a limit of $5.00.', 'Change model+'],
  ['the provider’s limit', not('spend_limit_exceeded', 'Credit balance too low'), clean, 0, [], 'Not repeated by itself. alpha said: Credit balance too low.', 'Change model+'],
  ['context_overflow', not('context_overflow'), clean, 0, [], 'Not repeated by itself: it would not fit again. A model with a larger context may take it, or a new session.', 'Change model+'],
  ['request_too_large', not('request_too_large', 'Request exceeds 32 MB'), clean, 0, [], 'Not repeated by itself. alpha said: Request exceeds 32 MB.', 'Edit message+'],
  ['invalid_request', not('invalid_request', 'messages.0: bad. More of it.'), clean, 0, [], 'Not repeated by itself. alpha said: messages.0: bad.', 'Edit message+'],
  ['model_not_found', not('model_not_found', 'No such model: x\nstack'), clean, 0, [], 'Not repeated by itself. alpha said: No such model: x.', 'Change model+'],
  ['content_filtered, with text shown', not('content_filtered', 'Withheld.'), unsafe('text_shown'), 40, [], 'Not repeated by itself. alpha said: Withheld. What was shown (40 characters) is kept above.', 'Edit message+'],
  ['unknown', not('unknown', 'odd'), clean, 0, [], 'Not repeated by itself: nobody knows whether trying again would help. Look, then retry.', 'Retry'],
  ['nothing against it', overloaded, clean, 0, [], 'Nothing was shown, so repeating it is safe. Nothing is scheduled: retry when you are ready.', 'Retry'],
])('%s', (_, f, r, shown, calls, text, act) => {
  const step = nextStep(f, r, shown, calls, '', 0);
  expect([step.text, step.act + (step.anyway ? '+' : '')]).toEqual([text, act]);
});

test('a provider time that has not come is named', () => {
  const now = Date.parse('2026-03-01T12:00:00Z');
  expect(nextStep(overloaded, { ...clean, not_before: now + 3_600_000 }, 0, [], '', now).text).toMatch(/^The provider asked to wait until .+\. Nothing is scheduled\.$/);
});

test('a very long sentence is cut', () => {
  const { text } = nextStep(not('invalid_request', 'word '.repeat(100)), clean, 0, [], '', 0);
  expect(text.length).toBeLessThan(250);
  expect(text.endsWith('…')).toBe(true);
});

test('once another model is chosen, a retry is what helps', () => {
  expect(nextStep(not('auth_failed'), clean, 0, [], 'beta/mini', 0)).toEqual({ act: 'Retry', anyway: false, text: 'The next run asks mini. Nothing starts by itself: retry when you are ready.' });
  expect(nextStep(not('content_filtered', 'No.'), clean, 0, [], 'beta/mini', 0).act).toBe('Edit message');
});
