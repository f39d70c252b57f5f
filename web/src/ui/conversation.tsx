import { useEffect, useMemo } from 'preact/hooks';
import { device } from '../device';
import type { App, Store } from '../store';
import { ended, type Session } from '../types';
import { phase, turnInView, turns, type Phase } from '../view';
import { versions } from '../versions';
import { characters, className, count, duration, modelName, nearTime } from '../words';
import { Composer } from './composer';
import { Head } from './head';
import { useNow, useProse } from './hooks';
import { Icon } from './icons';
import { Link } from './link';
import { Log } from './log';
import { Queue } from './queue';
import { Restore } from './restore';
import { RetryBar } from './retry';
import { SpendTotal } from './spend';
import { TurnView } from './turn';

/** One session: its log, its queue and the composer. */
export function Conversation({ store, app, id }: { store: Store; app: App; id: string }) {
  const focus = app.server.focus?.id === id ? app.server.focus : null;
  const session = app.server.sessions[id];
  const run = session?.last_run;
  const active = !!run && !ended(run);
  const now = useNow(app.server.clock, active ? 200 : 0);
  const prose = useProse();
  if (app.link.kind === 'missing') return <Missing store={store} />;
  const earlier = useMemo(() => (focus ? versions(focus.old, focus.messages, focus.runs) : {}), [focus?.old, focus?.messages, focus?.runs]);
  const p = phase(focus, session, now);
  const all = focus ? turns(focus, session, earlier) : [];
  const view = app.route.name === 'session' ? app.route : { version: 0, of: '' };
  const at = turnInView(all, view);
  // An earlier line ends where it ended: what was said since belongs to the current one.
  const shown = at < 0 ? all : all.slice(0, at + 1);
  const receipt = app.receipt?.run === run?.id ? (app.receipt?.superseded ?? 0) : 0;
  return (
    <>
      <Header store={store} session={session} phase={p} now={now} heard={(focus?.heard ?? 0) + app.server.clock} limit={app.models?.models.find((m) => m.name === run?.model)?.idle_ms ?? 0} />
      <Log id={id} loaded={focus !== null} change={focus} drawn={prose} last={all.at(-1)?.key ?? ''} position={at < 0 ? (focus?.messages.at(-1)?.position ?? 0) : 0}>
        {!focus && <p class="log-note">Loading…</p>}
        {focus && all.length === 0 && <p class="log-note">Nothing has been said yet.</p>}
        {shown.map((t, i) => (
          <TurnView
            key={t.key} store={store} turn={t} calls={focus!.calls} subs={focus!.subs} active={active} schedule={t.last ? session?.schedule : undefined}
            model={t.last ? (session?.model ?? '') : ''} version={i === at ? view.version : 0} superseded={t.last ? receipt : 0} now={now}
          />
        ))}
        {shown.length < all.length && (
          <p class="log-note">
            {count(all.length - shown.length, 'later message')} of yours belong to the current version.
          </p>
        )}
        {active && at < 0 && <RunLine phase={p} session={session} now={now} />}
      </Log>
      <footer class="foot">
        {app.error && <Refused store={store} text={app.error} />}
        {focus && <Queue store={store} pending={focus.pending} paused={!!session?.paused} />}
        {focus && <RetryBar key={id} store={store} app={app} session={session} />}
        {session?.archived ? (
          <p class="archived-note">
            This session is archived. Nothing of it starts by itself. <Restore store={store} session={session} />
          </p>
        ) : (
          <Composer store={store} app={app} id={id} model={session?.model ?? ''} onModel={(m) => void store.setModel(m)} />
        )}
      </footer>
    </>
  );
}

export function Refused({ store, text }: { store: Store; text: string }) {
  return (
    <p class="refused">
      {text}
      <button type="button" class="text" onClick={() => store.dismissError()}>
        Dismiss
      </button>
    </p>
  );
}

function Missing({ store }: { store: Store }) {
  return (
    <div class="plain-screen">
      <h1>There is no such session</h1>
      <p>It may have been archived, or the link is not complete.</p>
      <Link store={store} to="/" class="button">
        All sessions
      </Link>
    </div>
  );
}

interface HeaderProps {
  store: Store;
  session: Session | undefined;
  phase: Phase;
  now: number;
  heard: number; // when the run last showed life
  limit: number; // how long its output may be silent, in milliseconds; 0: nobody knows
}

function Header({ store, session, phase: p, now, heard, limit }: HeaderProps) {
  const run = session?.last_run;
  const title = session?.title || 'New session';
  useEffect(() => {
    document.title = `${p.kind === 'idle' ? '' : '● '}${title} · Reprise`;
  }, [title, p.kind === 'idle']);
  const words = phaseWords(p, now);
  const quiet = Math.floor((now - heard) / 1000);
  const silent = p.kind === 'connecting' || p.kind === 'thinking' || p.kind === 'writing' || p.kind === 'holding';
  const givesUp = limit > 0 && (p.kind === 'thinking' || p.kind === 'writing');
  return (
    <Head store={store} title={title}>
      {session?.parent && (
        <Link store={store} to={`/s/${session.parent.session_id}`} class="link">
          Part of {store.app.server.sessions[session.parent.session_id]?.title || 'another session'}
        </Link>
      )}
      {session && <span class="head-model">{modelName(session.model)}</span>}
      <span class="head-status">
        {words && (
          <>
            <Icon name={p.kind === 'waiting' ? 'waiting' : p.kind === 'queued' ? 'queued' : p.kind === 'asks' ? 'needs-you' : 'running'} />
            <span>
              {words}
              {run?.started_at && p.kind !== 'waiting' && p.kind !== 'stopping' && ` · ${Math.max(0, Math.floor((now - run.started_at) / 1000))} s`}
              {silent && quiet >= 10 && <span class="silent"> · silent {quiet} s{givesUp && <span class="gives-up">, gives up at {Math.round(limit / 1000)} s</span>}</span>}
            </span>
          </>
        )}
      </span>
      {session && <SpendTotal store={store} session={session} />}
    </Head>
  );
}

function phaseWords(p: Phase, now: number): string {
  switch (p.kind) {
    case 'idle':
      return '';
    case 'tool':
      return `running ${p.name}`;
    case 'asks':
      return `asks about ${p.name}`;
    case 'waiting':
      return device().countdown ? `waiting ${duration(p.until - now)}` : 'waiting';
    case 'stopping':
      return 'stopping…';
  }
  return p.kind;
}

/** What the run is doing while its reply shows nothing of it. */
function RunLine({ phase: p, session, now }: { phase: Phase; session: Session | undefined; now: number }) {
  switch (p.kind) {
    case 'queued':
      return <p class="runline">Queued. It starts as soon as a place is free.</p>;
    case 'connecting':
      return (
        <p class="runline">
          <Icon name="running" />
          Waiting for {modelName(session?.last_run?.model ?? '')}
        </p>
      );
    case 'holding':
      return (
        <p class="runline">
          <Icon name="running" />
          <span>
            {p.call ? 'Preparing a tool call' : 'Receiving'}, not shown until this attempt is safe to show · <span class="number">{characters(p.characters)}</span>
          </span>
        </p>
      );
    case 'waiting': {
      const { decision, failure, number } = p.attempt;
      const left = Math.max(0, p.until - now);
      return (
        <div class="runline backoff">
          <Icon name="waiting" />
          <span>
            {modelName(p.attempt.model)}: {className(decision!.class)}
            {failure?.status && failure.status !== 200 ? ` (${failure.status})` : ''}. Nothing had been shown. Trying again{' '}
            {device().countdown ? (
              <>
                in{' '}
                <span role="timer" class="number">
                  {duration(left)}
                </span>
              </>
            ) : (
              `at ${nearTime(p.until)}`
            )}
          </span>
          <span class="backoff-number">attempt {number + 1}</span>
        </div>
      );
    }
    case 'stopping':
      return <p class="runline">Stopping…</p>;
  }
  return null;
}
