import { device, type Device } from './device';
import type { Decision, Failure, Recovery, Run, Schedule } from './types';

// Every word that stands for something of the server: one word a thing.

const classes: Record<Decision['class'], string> = {
  rate_limited: 'rate limited',
  overloaded: 'overloaded',
  server_error: 'server error',
  network: 'network failure',
  timeout: 'timed out',
  stream_interrupted: 'the stream ended early',
  quota_exhausted: 'quota used up',
  spend_limit_exceeded: 'spend limit reached',
  auth_failed: 'the key was refused',
  credentials_unresolved: 'no key was found',
  permission_denied: 'permission denied',
  model_not_found: 'no such model',
  context_overflow: 'the conversation no longer fits',
  request_too_large: 'the request is too large',
  invalid_request: 'the request is not valid',
  content_filtered: 'withheld by the provider',
  cancelled: 'you stopped it',
  interrupted: 'the server was restarted',
  local: 'a limit of this server',
  unknown: 'an unknown failure',
};

/** A failure's class, or the reason of an interruption, in words. */
export const className = (c: string): string => (classes as Record<string, string>)[c] ?? c;

const skips: Record<string, string> = {
  cooling_off: 'cooling off',
  being_tried: 'tried by another request',
  context_too_small: 'too small for the conversation',
  large_request: 'asked often enough for a request of this size',
  no_tools: 'takes no tools',
  no_images: 'takes no images',
  key_unreadable: 'its key cannot be read',
  key_refused: 'its key was refused',
  another_key_is_pinned: 'another key is asked for',
  not_reached: 'no request was left for it',
  not_translatable: 'cannot be asked so',
  recovered: 'an earlier one answers again',
};

/** Why somebody is not asked: the class of a failure, or a reason of ours. */
export const whyNot = (reason: string): string => skips[reason] ?? className(reason);

const evidence: Record<string, string> = {
  text_shown: 'text was shown',
  thinking_shown: 'thinking was shown',
  content_shown: 'content was shown',
  call_shown: 'a tool call was shown',
  tool_started: 'a tool had started',
  provider_tool: 'the provider ran a tool',
  hook_ran: 'a hook had run',
  command_ran: 'a command of yours had run',
  evidence_missing: 'there is no record of what it did',
  attempt_open: 'the attempt has not ended',
  evidence_stale: 'its record is out of date',
  evidence_evicted: 'its record was dropped',
  remote_effect_unknown: 'the provider may have acted',
  nothing_committed: 'there is no finished step to go on from',
};

export const evidenceWords = (list: string[] | null | undefined): string => (list ?? []).map((e) => evidence[e] ?? e).join(', ');

/** What hooks with these names had done. */
export const hookWords = (names: string[]): string => `the hook${names.length > 1 ? 's' : ''} ${names.join(', ')} had run`;

/** One question and its answer. */
export interface Verdict {
  yes: boolean;
  why: string;
}

export function worthRetrying(f: Failure): Verdict {
  return { yes: f.retryable, why: className(f.retry_class) };
}

export function safeToRepeat(r: Recovery): Verdict {
  if (r.replay_safe) return { yes: true, why: r.verb === 'resume' ? 'nothing of the failed step had been shown' : 'nothing had been shown' };
  return { yes: false, why: evidenceWords(r.evidence) };
}

/** The model's own name, without the provider's. */
export const modelName = (model: string): string => model.slice(model.indexOf('/') + 1);

/** A failure in one sentence: who, and what happened. */
export function headline(f: Failure): string {
  const who = f.model ? modelName(f.model) : f.provider || 'The model';
  const code = f.status && f.status !== 200 ? ` (${f.status})` : '';
  switch (f.retry_class) {
    case 'overloaded':
      return `${who} is overloaded${code}.`;
    case 'rate_limited':
      return `${who} limits the rate of requests${code}.`;
    case 'stream_interrupted':
      return `The stream of ${who} ended early.`;
    case 'timeout':
      return `${who} did not answer in time.`;
    case 'network':
      return `The connection to ${f.provider || who} failed.`;
    case 'server_error':
      return `${f.provider || who} reported an error of its own${code}.`;
    case 'auth_failed':
    case 'permission_denied':
      return `${f.provider || 'The provider'} refused the key${code}.`;
    case 'quota_exhausted':
      return `The plan limit of ${f.provider || who} is used up.`;
    case 'spend_limit_exceeded':
      return 'The spend limit is reached.';
    case 'context_overflow':
      return 'The conversation no longer fits.';
    case 'interrupted':
      return 'The server was restarted during this reply.';
    case 'local':
      return 'This server could not go on.';
  }
  const what = className(f.retry_class);
  return `${who}: ${what}${code}.`;
}

/** Why a reply that was cut off ended, in words. */
export function interruption(reason: string, run: Run | null): string {
  if (run?.state === 'cancelled' || reason === 'cancelled') return 'you stopped it';
  return className(reason);
}

/** What started a run. */
export function triggerWords(r: Run): string {
  switch (r.trigger) {
    case 'message':
      return 'your message';
    case 'retry':
      return r.actor === 'timer' ? 'a timed retry' : 'Try now';
  }
  return r.trigger;
}

/** How a run ended. interrupted: why the end of its output is missing. */
export function outcomeWords(r: Run, interrupted: string): string {
  switch (r.state) {
    case 'succeeded':
      return 'completed';
    case 'failed':
      return interrupted ? `interrupted, ${className(interrupted)}` : 'failed';
    case 'running':
      return 'being written';
  }
  return r.state;
}

const plain = new Intl.NumberFormat('en');
export const characters = (n: number): string => `${plain.format(n)} ${n === 1 ? 'character' : 'characters'}`;
export const count = (n: number, one: string, many = one + 's'): string => `${plain.format(n)} ${n === 1 ? one : many}`;

// Made anew when the clock of this device changes: a formatter is dear.
let made: { clock: Device['clock']; minute: Format; second: Format; tenth: Format; day: Format; full: Format } | undefined;
type Format = Intl.DateTimeFormat;

function formats() {
  const { clock } = device();
  if (made?.clock === clock) return made;
  const format = (o: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(undefined, clock === 'auto' ? o : { ...o, hourCycle: clock === '12' ? 'h12' : 'h23' });
  const minute = { hour: '2-digit', minute: '2-digit' } as const;
  const second = { ...minute, second: '2-digit' } as const;
  made = {
    clock, minute: format(minute), second: format(second), tenth: format({ ...second, fractionalSecondDigits: 1 }),
    day: format({ weekday: 'short', day: 'numeric', month: 'short', ...minute }), full: format({ dateStyle: 'full', timeStyle: 'long' }),
  };
  return made;
}

/** The time of day; with the date where that is not today's. */
export function clockTime(t: number, now: number): string {
  const sameDay = new Date(t).toDateString() === new Date(now).toDateString();
  return (sameDay ? formats().minute : formats().day).format(t);
}
export const exactTime = (t: number): string => formats().tenth.format(t);
/** The time of day to the second, for a moment that is near. */
export const nearTime = (t: number): string => formats().second.format(t);
export const fullTime = (t: number): string => formats().full.format(t);

/** How long ago, for the list. */
export function ago(t: number, now: number): string {
  const s = Math.max(0, Math.round((now - t) / 1000));
  if (s < 60) return 'now';
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}

/** A wait or a duration: tenths below ten seconds, then whole seconds, then minutes. */
export function duration(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(Math.floor(s % 60)).padStart(2, '0')} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/** How long something took, to the millisecond below a tenth of a second. */
export const took = (ms: number): string => (ms < 100 ? `${Math.max(0, Math.round(ms))} ms` : duration(ms));

/** Whole seconds, rounded up: it reads 1 s until it is time. */
export function countdown(ms: number): string {
  const s = Math.max(0, Math.ceil(ms / 1000));
  return s < 100 ? `${s} s` : `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, '0')} s`;
}

/** When a session's retry starts, in the words of a list. */
export function waitWords(s: Schedule, now: number): string {
  const next = s.next_at ?? 0;
  if (s.state === 'held') return 'waits for a network';
  if (s.state === 'scheduled') return `retry after ${clockTime(next, now)}`;
  if (next > now && !device().countdown) return `retry at ${nearTime(next)}`;
  return next > now ? `retry in ${countdown(next - now)}` : 'starting…';
}

/** How far away a time is, for what does not tick: seconds, then minutes, hours, days. */
export function span(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 90) return `${s} s`;
  if (s < 90 * 60) return `${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86_400)} days`;
}
