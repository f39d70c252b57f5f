import { device } from './device';
import { waits, type Run, type Schedule } from './types';
import { className, clockTime, count, countdown, headline, modelName, nearTime, span } from './words';

// What the retry bar says of a session's schedule. Pure: now is the server's time.

export interface Bar {
  state: 'armed' | 'scheduled' | 'held' | 'dispatching' | 'cancelled' | 'exhausted' | 'never';
  text: string; // before the time, where there is one
  timer: string; // counts down
  at: number; // a time of day
  rest: string; // after the time
  notes: string[];
  main: '' | 'Try now' | 'Retry' | 'Schedule it';
  other: 'Cancel retry' | 'Cancel' | 'Dismiss';
  attempts: boolean; // offers the attempts
}

const bare = { timer: '', at: 0, rest: '', notes: [], attempts: false } satisfies Partial<Bar>;
const waiting = { ...bare, main: 'Try now', other: 'Cancel retry' } satisfies Partial<Bar>;
const stopped = { ...bare, main: 'Retry', other: 'Dismiss' } satisfies Partial<Bar>;

const holds: Record<string, string> = { asks: 'Ready. It starts when you try now.', offline: 'No network on the server. Waiting.' };

// What ended a wait, other than the operator's Cancel.
const ends: Record<string, string> = { model: ': you chose another model', archived: ': the session was archived' };

/** The bar of a schedule; null where the failure itself says all there is. run is the session's last, starting: its start was asked for. */
export function retryBar(s: Schedule, run: Run | undefined, starting: boolean, now: number): Bar | null {
  const next = s.next_at ?? 0;
  if (starting || (s.state === 'armed' && now >= next)) {
    return { ...bare, state: 'dispatching', text: `Starting attempt ${s.attempt + 1}…`, main: '', other: 'Cancel' };
  }
  switch (s.state) {
    case 'armed':
      if (!device().countdown) {
        return { ...waiting, state: 'armed', text: `${whatFailed(s, run)} Trying again at ${nearTime(next)}.`, notes: notes(s, run) };
      }
      return { ...waiting, state: 'armed', text: `${whatFailed(s, run)} Trying again in`, timer: countdown(next - now), rest: '.', notes: notes(s, run) };
    case 'scheduled':
      return {
        ...waiting, state: 'scheduled', text: `${capital(className(s.retry_class))}. Retry after`, at: next,
        rest: ` · in ${span(next - now)}. The countdown is paused until then.`,
      };
    case 'held':
      return { ...waiting, state: 'held', text: holds[s.hold_reason ?? ''] ?? 'Ready. Waiting for you to look.', notes: notes(s, run) };
    case 'cancelled':
      if (s.reason === 'message') return null; // it makes way for what the message started
      return { ...stopped, state: 'cancelled', text: `Retry cancelled${ends[s.reason] ?? ''}. Nothing will start by itself.` };
    case 'exhausted':
      return { ...stopped, state: 'exhausted', text: exhausted(s, run), attempts: true };
  }
  // Never by itself; but there is a time at which it can help, or could have.
  const until = s.not_before ?? 0;
  if (!s.replay_safe || until === 0) return null;
  const ahead = until > now;
  const quota = s.retry_class === 'quota_exhausted';
  return {
    ...stopped, state: 'never', at: until, main: ahead ? 'Schedule it' : 'Retry',
    text: quota ? `The plan limit is used up. It ${ahead ? 'resets' : 'was to reset'}` : `${whoFailed(s, run)} asked to wait until`,
    rest: quota && ahead ? ` · in ${span(until - now)}. Nothing is scheduled.` : '. Nothing is scheduled.',
  };
}

/** The later times that the operator can choose by a click: each puts the start off. */
export function later(s: Schedule, now: number): { text: string; until: number }[] {
  if (!waits(s)) return [];
  return [5, 30, 60].map((m) => ({ text: m < 60 ? `In ${m} min` : 'In 1 h', until: now + m * 60_000 })).filter((l) => s.state === 'held' || l.until > (s.next_at ?? 0));
}

/** The next moment at which a clock reads hours and minutes ("07:30"), in this machine's zone; 0: it is no time. */
export function nextAt(clock: string, now: number): number {
  const [, h, m] = /^(\d\d):(\d\d)/.exec(clock) ?? [];
  if (!h || !m) return 0;
  const t = new Date(now);
  t.setHours(+h, +m, 0, 0);
  if (t.getTime() <= now) t.setDate(t.getDate() + 1);
  return t.getTime();
}

/** What is said to those who do not see the bar, when it comes to this state. */
export function spoken(s: Schedule, run: Run | undefined, now: number): string {
  const b = retryBar(s, run, false, now);
  if (!b) return '';
  const time = b.timer ? ` ${count(Math.max(1, Math.round((s.next_at! - now) / 1000)), 'second')}` : b.at ? ` ${clockTime(b.at, now)}` : '';
  return `${b.text}${time}${b.rest.replace(' ·', ',')}${waits(s) ? ' Press Escape to cancel.' : ''}`;
}

function exhausted(s: Schedule, run: Run | undefined): string {
  const status = failure(s, run)?.status;
  const code = status && status !== 200 ? ` (${status})` : '';
  const took = s.updated_at - s.since;
  return `Stopped after ${count(s.attempt, 'attempt')}${took >= 1000 ? ` in ${span(took)}` : ''}. Last: ${className(s.retry_class)}${code}.`;
}

function notes(s: Schedule, run: Run | undefined): string[] {
  const number = `attempt ${s.attempt + 1}${s.max_attempts > 0 ? ` of ${s.max_attempts}` : ''}`;
  if (s.verb !== 'resume') return [number, 'nothing had been shown'];
  return [number, run?.id === s.run_id && run.steps > 0 ? `goes on after step ${run.steps}; nothing is run twice` : 'goes on after the last finished step; nothing is run twice'];
}

const failure = (s: Schedule, run: Run | undefined) => (run?.id === s.run_id ? run.failure : undefined);

// The bar leaves out the status: the failure above it has it.
function whatFailed(s: Schedule, run: Run | undefined): string {
  const f = failure(s, run);
  return f ? headline({ ...f, status: 0 }) : `${capital(className(s.retry_class))}.`;
}

function whoFailed(s: Schedule, run: Run | undefined): string {
  const model = failure(s, run)?.model;
  return model ? modelName(model) : 'The provider';
}

const capital = (s: string): string => s.charAt(0).toUpperCase() + s.slice(1);
