import { need } from './list';
import { ended, waits, type Session } from './types';
import { rowState } from './view';
import { headline } from './words';

// What the operator is told of while nobody looks at the page. Pure.

export interface Notice {
  session: string;
  run: string;
  outcome: 'needs you' | 'done' | 'failed';
  title: string;
  body: string;
  path: string;
}

/** What happened between two looks at the sessions: a reply is complete or has failed for good, or the operator is needed. A retry that waits is none of it. */
export function notices(before: Record<string, Session>, after: Record<string, Session>): Notice[] {
  return Object.values(after).flatMap((s) => {
    const was = before[s.id];
    const run = s.last_run;
    if (s === was || s.archived || s.parent || !run) return [];
    const news = (outcome: Notice['outcome'], body: string): Notice[] => [
      { session: s.id, run: run.id, outcome, title: `${s.title || 'New session'}: ${outcome}`, body, path: `/s/${encodeURIComponent(s.id)}` },
    ];
    const again = was?.last_run?.id === run.id && was.last_run.state === run.state;
    if (rowState(s) === 'needs-you') return again && was && rowState(was) === 'needs-you' ? [] : news('needs you', sentence(need(s)));
    if (again || !ended(run) || run.state === 'cancelled' || waits(s.schedule)) return [];
    return run.state === 'succeeded' ? news('done', 'The reply is complete.') : news('failed', run.failure ? headline(run.failure) : 'The reply failed.');
  });
}

const sentence = (s: string): string => (s ? `${s[0]!.toUpperCase()}${s.slice(1)}.` : '');

/** How many sessions need the operator. */
export const needed = (sessions: Record<string, Session>): number => Object.values(sessions).filter((s) => !s.archived && !s.parent && rowState(s) === 'needs-you').length;
