import { shown } from '../output';
import type { Store } from '../store';
import { textOf, type Message, type Part, type Run, type Schedule, type ToolCall } from '../types';
import type { Turn } from '../view';
import { characters, clockTime, count, fullTime, interruption, modelName } from '../words';
import { Copy } from './copy';
import { FailureCard } from './failure';
import { memo } from './hooks';
import { Parts } from './parts';

interface Props {
  store: Store;
  turn: Turn;
  calls: ToolCall[];
  active: boolean; // the session has a run that has not ended
  schedule: Schedule | undefined; // of the session, on its last turn
  history: Message[] | null;
  now: number; // of the page's opening or of the last run's end: no turn ticks
}

/** One operator message and its reply. */
export const TurnView = memo<Props>(DrawTurn, (a, b) => {
  const t = a.turn;
  const u = b.turn;
  return (
    a.active === b.active && a.schedule === b.schedule && a.history === b.history && t.key === u.key && t.operator === u.operator && t.run === u.run && t.last === u.last &&
    t.superseded === u.superseded && alike(t.rows, u.rows) && alike(t.live, u.live) && alike(Object.values(t.results), Object.values(u.results)) &&
    (!t.last || alike(a.calls, b.calls))
  );
});

function alike(a: unknown[], b: unknown[]): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

function DrawTurn({ store, turn, calls, active, schedule, history, now }: Props) {
  const { operator, rows, live, run } = turn;
  const over = !turn.last || !active;
  const end = rows.at(-1);
  // A cancelled run is never shown as a failed one, whatever reached it later.
  const ending = run ? (run.state === 'failed' ? run : null) : end;
  const failure = ending?.failure;
  const recovery = ending?.recovery;
  const steps = [
    ...rows.map((m) => ({ key: `${m.run_id}/${m.step}`, run: m.run_id, step: m.step, parts: m.parts ?? [], interrupted: m.interrupted ?? '' })),
    ...live.map((s) => ({ key: `${run?.id}/${s.step}`, run: run?.id ?? '', step: s.step, parts: shown(s), interrupted: s.interrupted })),
  ];
  const written = steps.filter((s) => s.parts.length > 0);
  const cut = steps.findLast((s) => s.interrupted)?.interrupted ?? '';
  const cancelled = run?.state === 'cancelled' && turn.last;
  const text = steps.map((s) => textOf(s.parts)).filter(Boolean).join('\n\n');
  const author = end?.model ?? '';
  const old = history?.filter((m) => between(m, turn)) ?? [];
  return (
    <>
      {operator && <Operator message={operator} now={now} />}
      {turn.superseded > 0 && <Superseded store={store} n={turn.superseded} open={history !== null} old={old} now={now} />}
      {(written.length > 0 || failure || cancelled || cut || (over && end)) && (
        <article class="message reply" aria-label={`Reply${end ? `, ${clockTime(end.created_at, now)}` : ''}`} tabIndex={-1}>
          <header class="byline">
            <span class="who">Reply</span>
            {author && <span>{modelName(author)}</span>}
            {end && <Time t={end.created_at} now={now} />}
          </header>
          {steps.map((s) => (
            <Parts key={s.key} parts={s.parts} results={turn.results} calls={calls.filter((c) => c.run_id === s.run && c.step === s.step)} over={over} />
          ))}
          {over && written.length === 0 && !failure && !cancelled && !cut && <p class="aside">The reply is empty.</p>}
          {over && <Divider cut={cut} run={turn.last ? run : null} end={end} parts={steps.flatMap((s) => s.parts)} now={now} />}
          {over && failure && recovery && (
            <FailureCard store={store} failure={failure} recovery={recovery} message={operator} runId={run?.id ?? end?.run_id ?? ''} last={turn.last} schedule={schedule?.run_id === run?.id ? schedule : undefined} shown={length(steps.at(-1)?.parts)} now={now} />
          )}
          {over && operator && <Actions store={store} message={operator} runId={run?.id ?? end?.run_id ?? ''} text={text} busy={active} failed={!!failure} />}
        </article>
      )}
    </>
  );
}

const length = (parts: Part[] | undefined): number => (parts ?? []).reduce((n, p) => n + (p.kind === 'text' || p.kind === 'thinking' ? (p.text ?? '').length : 0), 0);

function between(m: Message, turn: Turn): boolean {
  const from = turn.operator?.position ?? 0;
  const to = turn.rows[0]?.position ?? Infinity;
  return m.position > from && m.position < to;
}

function Time({ t, now }: { t: number; now: number }) {
  return (
    <time dateTime={new Date(t).toISOString()} title={fullTime(t)}>
      {clockTime(t, now)}
    </time>
  );
}

function Operator({ message, now }: { message: Message; now: number }) {
  return (
    <article class="message operator" aria-label={`You, ${clockTime(message.created_at, now)}`} tabIndex={-1}>
      <header class="byline">
        <span class="who">You</span>
        <Time t={message.created_at} now={now} />
      </header>
      <p class="said">{textOf(message.parts)}</p>
    </article>
  );
}

function Superseded({ store, n, open, old, now }: { store: Store; n: number; open: boolean; old: Message[]; now: number }) {
  return (
    <div class="superseded">
      <p>
        {count(n, 'earlier message')} superseded{' '}
        <button type="button" class="text" aria-expanded={open} onClick={() => (open ? store.hideSuperseded() : void store.showSuperseded())}>
          {open ? 'Hide' : 'Show'}
        </button>
      </p>
      {open &&
        old.map((m) => (
          <article key={m.id} class="message old" aria-label={`Superseded, ${clockTime(m.created_at, now)}`}>
            <header class="byline">
              <span class="who">{m.role === 'operator' ? 'You' : m.role === 'tool' ? 'Tool results' : 'Reply'}</span>
              <span>superseded · read only</span>
              <Time t={m.created_at} now={now} />
            </header>
            {m.role === 'operator' ? <p class="said">{textOf(m.parts)}</p> : <Parts parts={m.parts ?? []} calls={[]} results={{}} over />}
            {m.parts?.length === 0 && <p class="aside">Nothing had been shown.</p>}
          </article>
        ))}
    </div>
  );
}

function Divider({ cut, run, end, parts, now }: { cut: string; run: Run | null; end: Message | undefined; parts: Part[]; now: number }) {
  const cancelled = run?.state === 'cancelled' || cut === 'cancelled';
  if (!cut && !cancelled) return null;
  const at = run?.ended_at ?? end?.created_at ?? 0;
  const n = length(parts);
  return (
    <p class="divider">
      <span>
        <strong>{cancelled ? 'Cancelled' : 'Interrupted'}</strong>
        {at > 0 && <> {clockTime(at, now)}</>} · {interruption(cut, run)}
        {n > 0 && <> · {characters(n)} kept</>}
        {n === 0 && cancelled && <> · nothing had been shown</>}
      </span>
    </p>
  );
}

function Actions({ store, message, runId, text, busy, failed }: { store: Store; message: Message; runId: string; text: string; busy: boolean; failed: boolean }) {
  return (
    <div class="actions">
      {!failed && (
        <button type="button" class="text" disabled={busy} title={busy ? 'Stop the run first' : 'Answer the same message again (r)'} onClick={() => void store.regenerate(message)}>
          Regenerate
        </button>
      )}
      {text && <Copy text={text} label="Copy" />}
      {!failed && runId && (
        <button type="button" class="text" onClick={() => store.showAttempts(runId)}>
          Attempts
        </button>
      )}
    </div>
  );
}

