import type { Decision, Outcome, ProviderFailure } from './types';
import { className, evidenceWords, modelName, whyNot, type Verdict } from './words';

// The words of the attempts: what the gate decided about each, and why.

export function attemptVerdicts(d: Decision): { worth: Verdict; safe: Verdict } {
  return {
    worth: { yes: d.eligible, why: className(d.class) },
    safe: { yes: d.safe, why: d.safe ? 'nothing had been shown' : evidenceWords(d.evidence) },
  };
}

const verdicts: Record<string, string> = {
  stop: 'Refused',
  retry: 'Repeated after a wait',
  rotate: 'Repeated with another key',
  advance: 'Repeated with the next model',
  compact: 'Repeated after compacting',
  hand_over: 'Run ended; a later retry may repeat it',
};
export const verdictWords = (d: Decision): string => verdicts[d.verdict] ?? d.verdict;

const rules: Record<string, string> = {
  cancelled: 'The run was cancelled: nothing is repeated.',
  not_eligible: 'A failure of this class does not pass by trying again.',
  not_safe: 'Something had become observable, or may have: it is not repeated.',
  request_bound: 'The step has sent as many requests as it may.',
  other_key: 'Another key of the same provider is tried at once.',
  tier1: 'Nothing was shown: the same request is sent again after a short wait.',
  tier1_beyond_window: 'The provider asked for a longer wait than a run sits through.',
  tier1_spent: 'The fast retries are used up.',
  next_model: 'The next model of the chain is tried at once.',
  compact_once: 'The conversation is made shorter, once, and sent again.',
  compact_spent: 'The conversation no longer fits, also after compacting once.',
  silent: 'The model said nothing in time: it is not asked again, the next one is.',
  probe_failed: 'The model had just cooled off and still fails: it is left alone again.',
  cooling_off: 'Everything that could answer cools off: nothing was sent.',
  no_way_left: 'The failure may pass, but no automatic way is left.',
};
export const ruleWords = (rule: string): string => rules[rule] ?? rule;

/** What became of somebody who might have answered. */
export const outcomeWords = (o: Outcome): string =>
  `Not ${modelName(o.model)}${o.key ? ` with ${o.key}` : ''}: ${whyNot(o.failed || o.skipped || '')}`;

/** What an attempt's failure was, in words and numbers. */
export function attemptFailure(f: ProviderFailure): string {
  return [className(f.class), f.code, f.status && f.status !== 200 ? `HTTP ${f.status}` : '', f.transport].filter(Boolean).join(' · ');
}
