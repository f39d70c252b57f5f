import { useEffect, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import { attemptFailure, attemptVerdicts, outcomeWords, ruleWords, verdictWords } from '../explain';
import { cost, spent, total } from '../money';
import type { App, Store } from '../store';
import type { Attempt } from '../types';
import { count, duration, exactTime, fullTime, modelName } from '../words';
import { Copy } from './copy';
import { Verdicts } from './failure';
import { Icon } from './icons';

/** Every attempt of one run, with its failure and both answers. */
export function Drawer({ store, app }: { store: Store; app: App }) {
  const run = app.drawer;
  const session = store.session();
  const panel = useRef<HTMLElement>(null);
  const [loaded, setLoaded] = useState<{ run: string; attempts: Attempt[] } | null>(null);
  const [failed, setFailed] = useState('');
  const last = session?.last_run?.id === run ? session.last_run : null;
  // What the stream has told since: then the list is read again.
  const told = `${app.server.focus?.attempts.length} ${last?.state}`;

  // What had the focus before the rest of the page may have become inert.
  const [opener] = useState(() => document.activeElement);
  useEffect(() => {
    panel.current?.focus();
    return () => queueMicrotask(() => opener instanceof HTMLElement && opener.isConnected && opener.focus());
  }, []);
  useEffect(() => {
    let current = true;
    api.attempts(session!.id, run).then(
      ({ attempts }) => current && (setLoaded({ run, attempts }), setFailed('')),
      (e: Error) => current && setFailed(e.message),
    );
    return () => {
      current = false;
    };
  }, [run, told]);

  const attempts = loaded?.run === run ? loaded.attempts : [];
  return (
    <section class="drawer" aria-labelledby="drawer-title" tabIndex={-1} ref={panel}>
      <header class="drawer-head">
        <h2 id="drawer-title">Attempts</h2>
        {attempts.length > 0 && <span class="soft">{attempts.length}</span>}
        <button type="button" class="button quiet icon-only" aria-label="Close attempts" onClick={() => store.showAttempts('')}>
          <Icon name="close" />
        </button>
      </header>
      {failed && <p class="refused">{failed}</p>}
      {!loaded && !failed && <p class="soft">Loading…</p>}
      {loaded && attempts.length === 0 && <p class="soft">No request has been sent yet.</p>}
      <ol class="attempts">
        {attempts.map((a) => (
          <Card key={a.id} attempt={a} previous={attempts.find((b) => b.id === a.after)} />
        ))}
      </ol>
      {attempts.length > 0 && (
        <footer class="drawer-foot">
          <p class="number">All attempts cost {spent(total(attempts.map((a) => a.cost))) || 'nothing'}</p>
          <Copy text={JSON.stringify(attempts, null, 2)} label="Copy as JSON" />
          <p>
            Same in the terminal: <code>reprise explain {run}</code>
          </p>
        </footer>
      )}
    </section>
  );
}

function outcome(a: Attempt): string {
  if (!a.ended_at) return 'open';
  if (a.ok) return 'completed';
  if (a.failure?.class === 'cancelled') return 'cancelled';
  if (a.marked_at) return 'interrupted';
  return a.decision && a.decision.verdict !== 'stop' ? 'discarded before anything was shown' : 'failed';
}

function kind(a: Attempt, previous: Attempt | undefined): string {
  if (!previous) return 'first';
  if (previous.provider !== a.provider || previous.model !== a.model) return 'next model';
  return previous.key === a.key ? 'retry' : 'other key';
}

function Card({ attempt: a, previous }: { attempt: Attempt; previous: Attempt | undefined }) {
  const d = a.decision;
  const p = a.evidence.published;
  const state = outcome(a);
  const wait = d?.next_at && a.ended_at ? Date.parse(d.next_at) - a.ended_at : 0;
  return (
    <li class={`attempt ${a.ok ? 'ok' : ''}`}>
      <h3>
        <span class="attempt-number">{a.number}</span>
        {kind(a, previous)} · {modelName(a.model)}
      </h3>
      <p class="soft number">
        <span class="attempt-outcome">{state}</span> ·{' '}
        <time dateTime={new Date(a.opened_at).toISOString()} title={fullTime(a.opened_at)}>
          {exactTime(a.opened_at)}
        </time>
        {a.ended_at && <> · took {duration(a.ended_at - a.opened_at)}</>}
        {previous?.ended_at && <> · after a wait of {duration(a.opened_at - previous.ended_at)}</>}
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
        Published: text {p.text} · thinking {p.thinking} · tool calls {p.calls}
        {a.usage && <> · {count(a.usage.input + a.usage.output, 'token')}</>} · cost {cost(a.cost)}
      </p>
      {a.failure && (
        <details class="fold">
          <summary>Details</summary>
          <p>{a.failure.message}</p>
          {a.failure.request_id && <p class="soft">Request {a.failure.request_id}</p>}
          {a.failure.body && (
            <pre tabIndex={0} role="group" aria-label={`Answer to attempt ${a.number}`}>
              {a.failure.body}
            </pre>
          )}
        </details>
      )}
    </li>
  );
}
