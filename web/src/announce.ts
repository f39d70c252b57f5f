import { shown } from './output';
import { spoken } from './retry';
import type { Focus, State } from './state';
import { ended, textOf, waits, type Run, type Schedule, type Session } from './types';
import { className, duration, headline } from './words';

// What is said to those who do not see the page: boundaries only, never a delta and never a
// second of a countdown.

export interface Said {
  status?: string;
  alert?: string; // the operator is needed
}

/** The sentence for what changed between two states of the same session. */
export function announce(before: State, after: State): Said {
  const was = before.focus;
  const is = after.focus;
  if (!is || was?.id !== is.id) return {};
  const old = before.sessions[is.id]?.last_run;
  const run = after.sessions[is.id]?.last_run;
  if (!run) return {};
  const ended = messageEnded(was, is) ? 'Retry cancelled: you sent a new message.' : '';
  const said = announceRun(before, after, was, is, run, old);
  return ended ? { ...said, status: `${ended} ${said.status ?? ''}`.trim() } : said;
}

/** Whether a message has just ended the wait for a retry. */
const messageEnded = (was: Focus, is: Focus): boolean =>
  was.runs !== is.runs && Object.values(is.runs).some((r) => r.recovery?.cancelled === 'message' && was.runs[r.id]?.recovery?.cancelled === undefined && was.runs[r.id]);

function announceRun(before: State, after: State, was: Focus, is: Focus, run: Run, old: Run | undefined): Said {
  const next = announceSchedule(before.sessions[is.id], after.sessions[is.id], Date.now() + after.clock);
  if (next) return next;
  if (run.id !== old?.id || run.state !== old.state) {
    switch (run.state) {
      case 'queued':
        return { status: run.trigger === 'retry' ? `Starting attempt ${run.attempt}` : 'Queued' };
      case 'running':
        return { status: 'Replying' };
      case 'succeeded':
        return { status: `Reply complete, ${paragraphs(after, run.id)}` };
      case 'cancelled':
        return { status: 'Stopped' };
      case 'failed': {
        // What may be repeated by itself comes with a schedule, which says so.
        if (run.recovery?.auto) return {};
        const kept = is.messages.some((m) => m.run_id === run.id && m.interrupted) ? ' Reply interrupted, kept.' : '';
        const what = run.failure ? headline(run.failure) : 'The reply failed.';
        return { alert: `${what}${kept}` };
      }
    }
  }
  const attempt = is.attempts.at(-1);
  if (!ended(run) && attempt && attempt !== was?.attempts.at(-1) && attempt.decision?.next_at) {
    const wait = Date.parse(attempt.decision.next_at) - attempt.ended_at!;
    return { status: `Attempt ${attempt.number} failed: ${className(attempt.decision.class)}. Trying again ${wait < 100 ? 'now' : `in ${duration(wait)}`}. Press Escape to stop.` };
  }
  return {};
}

function announceSchedule(before: Session | undefined, after: Session | undefined, now: number): Said | null {
  const was = before?.schedule;
  const is = after?.schedule;
  if (!is || (was?.token === is.token && was.state === is.state && !moved(was, is, now))) return null;
  if (is.reason === 'message') return null; // said with the run that it started
  const text = spoken(is, after.last_run, now);
  if (!text) return waits(was) ? { alert: 'The retry does not start by itself any more.' } : null;
  return waits(is) || is.state === 'cancelled' ? { status: text } : { alert: text };
}

// A wait that changes by more than a fifth is another one.
function moved(was: Schedule, is: Schedule, now: number): boolean {
  const old = was.next_at ?? 0;
  return Math.abs((is.next_at ?? 0) - old) > Math.max(0, old - now) / 5;
}

/** What is still to be said of a wait, and in how many milliseconds. now is the server's time. */
export function marks(s: Schedule | undefined, now: number): { wait: number; text: string }[] {
  if (!s?.next_at || !waits(s) || s.state === 'held') return [];
  const left = s.next_at - now;
  // The last seconds of a far time are those of a near one: the server says when.
  const at = s.state === 'armed' ? [30, 10] : [300];
  return at
    .map((seconds) => ({ wait: left - seconds * 1000, text: seconds < 60 ? `Trying again in ${seconds} seconds.` : `Trying again in ${seconds / 60} minutes.` }))
    .filter((m) => m.wait > 3000 && m.wait < 2 ** 31);
}

function paragraphs(state: State, run: string): string {
  const text = state.focus!.messages.filter((m) => m.run_id === run && m.role === 'reply').map((m) => textOf(m.parts)).join('\n\n');
  const n = text.split(/\n\s*\n/).filter((p) => p.trim()).length;
  return n === 1 ? '1 paragraph' : `${n} paragraphs`;
}

const most = 300; // characters that are spoken at a time

/** The sentences of a text that were completed since a place in it, the last ones where they are many, and where they end. */
export function sentences(text: string, from: number): { said: string; to: number } {
  const ends = [...text.slice(from).matchAll(/[.!?…:](?=\s)|\n/g)];
  const end = ends.at(-1);
  if (!end) return { said: '', to: from };
  const to = from + end.index + 1;
  const fresh = text.slice(from, to);
  const cut = fresh.length <= most ? 0 : (ends.find((e) => fresh.length - e.index - 1 <= most)?.index ?? fresh.length - most) + 1;
  return { said: fresh.slice(cut).replace(/[#*`>|_]+/g, ' ').replace(/\s+/g, ' ').trim(), to };
}

/** All that the reply on screen has written so far; empty: none is being written. */
export function writing(state: State): string {
  const f = state.focus;
  const run = f && state.sessions[f.id]?.last_run;
  if (!f || !run || ended(run) || f.live?.run !== run.id) return '';
  return f.live.steps.map((s) => textOf(shown(s))).join('\n');
}
