import type { State } from './state';
import { ended, textOf } from './types';
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
  if (run.id !== old?.id || run.state !== old.state) {
    switch (run.state) {
      case 'queued':
        return { status: 'Queued' };
      case 'running':
        return { status: 'Replying' };
      case 'succeeded':
        return { status: `Reply complete, ${paragraphs(after, run.id)}` };
      case 'cancelled':
        return { status: 'Stopped' };
      case 'failed': {
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

function paragraphs(state: State, run: string): string {
  const text = state.focus!.messages.filter((m) => m.run_id === run && m.role === 'reply').map((m) => textOf(m.parts)).join('\n\n');
  const n = text.split(/\n\s*\n/).filter((p) => p.trim()).length;
  return n === 1 ? '1 paragraph' : `${n} paragraphs`;
}
