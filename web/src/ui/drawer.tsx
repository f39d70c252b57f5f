import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import { attemptFailure, attemptVerdicts, outcomeWords, ruleWords, verdictWords } from '../explain';
import { cost, spent, total } from '../money';
import type { App } from '../app';
import type { Store } from '../store';
import { ended, type Attempt, type Run } from '../types';
import { runsOf } from '../versions';
import { turnInView, turnsOf } from '../view';
import { count, duration, exactTime, fullTime, modelName, took, triggerWords } from '../words';
import { Copy } from './copy';
import { Verdicts } from './failure';
import { log } from './hooks';
import { Icon } from './icons';

interface Props {
  store: Store;
  app: App;
  of: string; // the operator message
}

/** Every attempt at the reply to a message, each with its failure and both answers; at the version that is in view. */
export function Drawer({ store, app, of }: Props) {
  const session = store.session();
  const focus = app.server.focus;
  const panel = useRef<HTMLElement>(null);
  const [read, setRead] = useState<Record<string, Read>>({}); // by run
  const [failed, setFailed] = useState('');

  // What had the focus before the rest of the page may have become inert.
  const [opener] = useState(() => document.activeElement);
  useLayoutEffect(() => {
    panel.current?.focus();
    return () =>
      queueMicrotask(() => {
        if (opener instanceof HTMLElement) opener.focus();
        if (document.activeElement === document.body) log()?.focus(); // the opener has gone meanwhile
      });
  }, []);

  const all = focus ? turnsOf(focus, session) : [];
  const at = all.findIndex((t) => t.key === of);
  const turn = all[at];
  const route = app.route.name === 'session' ? app.route : { version: 0, of: '' };
  const version = turn && turnInView(all, route) === at ? route.version : 0;
  const runs = turn && focus?.whole ? runsOf(version || turn.versions.length + 1, turn.versions, turn.runs) : [];
  // What the stream has told since: then what has not ended is read again.
  const told = `${focus?.attempts.length} ${runs.map((r) => r.id + r.state)}`;
  useEffect(() => {
    let current = true;
    const open = runs.filter((r) => read[r.id]?.state !== r.state || !ended(r));
    Promise.all(open.map(async (r) => [r.id, { state: r.state, attempts: (await api.attempts(r.session_id, r.id)).attempts }] as const)).then(
      (fresh) => current && (setRead((before) => ({ ...before, ...Object.fromEntries(fresh) })), setFailed('')),
      (e: Error) => current && setFailed(e.message),
    );
    return () => {
      current = false;
    };
  }, [told]);

  const loaded = focus?.whole && runs.every((r) => read[r.id]);
  const attempts = runs.flatMap((r) => read[r.id]?.attempts ?? []);
  const asked = runs.filter((r) => read[r.id]?.attempts.length);
  return (
    <section class="drawer" aria-labelledby="drawer-title" tabIndex={-1} ref={panel}>
      <header class="drawer-head">
        <h2 id="drawer-title">Attempts</h2>
        {attempts.length > 0 && <span class="soft">{attempts.length}</span>}
        <button type="button" class="button quiet icon-only" aria-label="Close attempts" onClick={() => store.showAttempts('')}>
          <Icon name="close" />
        </button>
      </header>
      {version > 0 && <p class="soft">Of version {version}, superseded</p>}
      {failed && <p class="refused">{failed}</p>}
      {!loaded && !failed && <p class="soft">Loading…</p>}
      {loaded && attempts.length === 0 && <p class="soft">{turn ? 'No request has been sent yet.' : 'There is no such message.'}</p>}
      <ol class="attempts">
        {attempts.map((a, i) => (
          <AttemptCard key={a.id} attempt={a} number={i + 1} before={attempts[i - 1]} run={runs.find((r) => r.id === a.run_id)!} />
        ))}
      </ol>
      {attempts.length > 0 && (
        <footer class="drawer-foot">
          <p class="number">All attempts cost {spent(total(attempts.map((a) => a.cost))) || 'nothing'}</p>
          <Copy text={JSON.stringify(attempts, null, 2)} label="Copy as JSON" />
          <p>
            Same in the terminal:{' '}
            {asked.map((r) => (
              <code key={r.id}>reprise explain {r.id}</code>
            ))}
          </p>
        </footer>
      )}
    </section>
  );
}

interface Read {
  state: Run['state']; // of the run, when they were read
  attempts: Attempt[];
}

function outcome(a: Attempt): string {
  if (!a.ended_at) return 'open';
  if (a.ok) return 'completed';
  if (a.failure?.class === 'cancelled') return 'cancelled';
  if (a.evidence.marks.some((m) => m !== 'hook_ran')) return 'interrupted';
  return a.decision && a.decision.verdict !== 'stop' ? 'discarded before anything was shown' : 'failed';
}

/** What led to an attempt. before: the one that came before it, of whichever run. */
function kind(a: Attempt, before: Attempt | undefined, run: Run | undefined): string {
  if (before?.run_id !== a.run_id) return !run || run.trigger === 'message' ? 'first' : run.trigger === 'retry' && run.actor === 'timer' ? 'timed retry' : triggerWords(run);
  if (a.after !== before.id) return 'next step';
  if (before.provider !== a.provider || before.model !== a.model) return 'next model';
  return before.key === a.key ? 'retry' : 'other key';
}

interface CardProps {
  attempt: Attempt;
  number: number; // in the drawer, from 1
  before: Attempt | undefined;
  run?: Run; // undefined: a program asked, through the gateway
}

/** One request, what came of it, and what was decided. */
export function AttemptCard({ attempt: a, number, before, run }: CardProps) {
  const d = a.decision;
  const p = a.evidence.published;
  const state = outcome(a);
  const waited = before?.ended_at && (a.after === before.id || (a.run_id !== before.run_id && run?.trigger === 'retry'));
  const wait = d?.next_at && a.ended_at ? Date.parse(d.next_at) - a.ended_at : 0;
  return (
    <li class={`attempt ${a.ok ? 'ok' : ''}`}>
      <h3>
        <span class="attempt-number">{number}</span>
        {kind(a, before, run)} · {modelName(a.model)}
      </h3>
      <p class="soft number">
        <span class="attempt-outcome">{state}</span> ·{' '}
        <time dateTime={new Date(a.opened_at).toISOString()} title={fullTime(a.opened_at)}>
          {exactTime(a.opened_at)}
        </time>
        {a.ended_at && <> · took {took(a.ended_at - a.opened_at)}</>}
        {waited && <> · after a wait of {took(a.opened_at - before.ended_at!)}</>}
        {a.key && <> · key {a.key}</>}
      </p>
      {(a.switched_from || (a.skipped?.length ?? 0) > 0) && (
        <ul class="attempt-passed soft">
          {a.switched_from && <li>{outcomeWords({ ...a.switched_from, skipped: a.switched_from.reason })}</li>}
          {a.skipped?.map((o) => <li key={`${o.model} ${o.key}`}>{outcomeWords(o)}</li>)}
        </ul>
      )}
      {a.failure && <p class="attempt-failure">{attemptFailure(a.failure)}</p>}
      {d && (
        <>
          <Verdicts {...attemptVerdicts(d)} />
          <p class="attempt-decision">
            <strong>{verdictWords(d)}</strong>
            {wait >= 100 && <> of {duration(wait)}</>} · {ruleWords(d.rule)}
          </p>
        </>
      )}
      <p class="soft number">
        Published: text {p.text} · thinking {p.thinking} · tool calls {p.calls} · hooks {a.hooks?.length ?? 0}
        {a.hooks?.map((h) => ` (${h.hook} on ${h.event})`)}
        {a.usage && <> · {count(a.usage.input + a.usage.output, 'token')}</>} · cost {cost(a.cost)}
      </p>
      {a.failure && (
        <details class="fold">
          <summary>Details</summary>
          <p>{a.failure.message}</p>
          {a.failure.request_id && <p class="soft">Request {a.failure.request_id}</p>}
          {a.failure.body && (
            <pre tabIndex={0} role="group" aria-label={`Answer to attempt ${number}`}>
              {a.failure.body}
            </pre>
          )}
        </details>
      )}
    </li>
  );
}
