import type { Failure, Recovery, ToolCall } from './types';
import { characters, clockTime, evidenceWords, hookWords, modelName } from './words';

// What is said of a failed run that nothing repeats by itself, and the one act that helps. Pure.

export type Act = 'Regenerate' | 'Retry' | 'Review effects' | 'Change model' | 'Edit message' | 'Raise limit' | 'Attempts';

export interface NextStep {
  text: string;
  act: Act;
  anyway: boolean; // a retry, although it is not what helps, is the operator's to choose
}

/**
 * What follows a failed run. shown is how many characters of it the operator has seen, calls
 * are its tool calls, and chosen is the session's model, where that is another one by now.
 */
export function nextStep(f: Failure, r: Recovery, shown: number, calls: ToolCall[], chosen: string, now: number): NextStep {
  if (r.reason === 'effects_not_confirmed') {
    return { act: 'Review effects', anyway: true, text: 'Not repeated by itself: tools have changed something, and may change it again.' };
  }
  const known = byClass(f);
  if (known?.act === 'Change model' && chosen) {
    return { act: 'Retry', anyway: false, text: `The next run asks ${modelName(chosen)}. Nothing starts by itself: retry when you are ready.` };
  }
  // What would fail again is no matter of safety; what was shown is kept all the same.
  if (known) return { ...known, text: r.replay_safe || shown === 0 ? known.text : `${known.text} ${kept(shown)}` };
  if (!r.replay_safe) return unsafe(r.evidence ?? [], r.hooks ?? [], shown, calls);
  if (!f.retryable) {
    return { act: 'Retry', anyway: false, text: 'Not repeated by itself: nobody knows whether trying again would help. Look, then retry.' };
  }
  const until = r.not_before ?? f.retry_after_until ?? 0;
  if (until > now) return { act: 'Retry', anyway: false, text: `The provider asked to wait until ${clockTime(until, now)}. Nothing is scheduled.` };
  return { act: 'Retry', anyway: false, text: 'Nothing was shown, so repeating it is safe. Nothing is scheduled: retry when you are ready.' };
}

const kept = (shown: number): string => `What was shown (${characters(shown)}) is kept above.`;

function byClass(f: Failure): NextStep | null {
  const said = firstSentence(f.message);
  const provider = f.provider ? `${f.provider} said: ${said}` : said;
  const change = (text: string): NextStep => ({ act: 'Change model', anyway: true, text });
  const edit = (text: string): NextStep => ({ act: 'Edit message', anyway: true, text });
  switch (f.retry_class) {
    case 'auth_failed':
      return change('Not repeated by itself: the key must be put right first, where the server reads it. Another model may have another key.');
    case 'permission_denied':
      return change(`Not repeated by itself: the key may not do this. ${provider}`);
    case 'credentials_unresolved':
      return change('Not repeated by itself: the server has no key for this model.');
    case 'quota_exhausted':
      return change('Not repeated by itself: the plan limit is used up, and nobody said when it resets.');
    case 'spend_limit_exceeded':
      if (f.provider) return change(`Not repeated by itself. ${provider}`);
      return { act: f.code === 'session_limit' ? 'Raise limit' : 'Change model', anyway: true, text: said };
    case 'context_overflow':
      return change('Not repeated by itself: it would not fit again. A model with a larger context may take it, or a new session.');
    case 'model_not_found':
      return change(`Not repeated by itself. ${provider}`);
    case 'request_too_large':
    case 'invalid_request':
    case 'content_filtered':
      return edit(`Not repeated by itself. ${provider}`);
  }
  return null;
}

// What speaks against a repetition, the weightiest first.
function unsafe(evidence: string[], hooks: string[], shown: number, calls: ToolCall[]): NextStep {
  const has = (...names: string[]) => names.some((n) => evidence.includes(n));
  const size = shown > 0 ? ` (${characters(shown)})` : '';
  if (has('tool_started')) {
    const unknown = calls.find((c) => c.state === 'started' || c.state === 'unknown');
    const call = unknown ?? calls.findLast((c) => c.effect) ?? calls.at(-1);
    const name = call ? call.name : 'a tool';
    return { act: 'Review effects', anyway: true, text: `Not repeated by itself: ${name} ${unknown ? 'may have run, its outcome is unknown' : 'had already run'}.` };
  }
  if (has('text_shown', 'content_shown', 'call_shown')) {
    return { act: 'Regenerate', anyway: false, text: `Not repeated by itself: part of the answer was already shown${size}. It is kept above.` };
  }
  if (has('thinking_shown')) {
    return { act: 'Regenerate', anyway: false, text: `Not repeated by itself: thinking was already shown${size}. It is kept above.` };
  }
  if (has('hook_ran', 'command_ran', 'provider_tool', 'remote_effect_unknown')) {
    const words = evidenceWords(evidence.map((e) => (e === 'hook_ran' && hooks.length > 0 ? hookWords(hooks) : e)));
    return { act: 'Attempts', anyway: true, text: `Not repeated by itself: ${words}.` };
  }
  return { act: 'Attempts', anyway: true, text: 'Not repeated by itself: no reliable record of what this attempt did.' };
}

/** The first sentence of what somebody else wrote; the rest is among the details. */
function firstSentence(message: string): string {
  const line = message.trim().split('\n')[0] ?? '';
  const sentence = /^.{8,}?[.!?](?=\s|$)/.exec(line)?.[0] ?? line;
  return sentence.length > 200 ? `${sentence.slice(0, 199).trimEnd()}…` : /[.!?…]$/.test(sentence) ? sentence : `${sentence}.`;
}
