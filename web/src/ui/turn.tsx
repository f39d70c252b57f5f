import { useLayoutEffect, useRef } from 'preact/hooks';
import { spent } from '../money';
import { shown } from '../output';
import type { Store } from '../store';
import { textOf, type Call, type Message, type Part, type Run, type Schedule, type Session, type Spend } from '../types';
import { costOf, runsOf } from '../versions';
import type { Turn } from '../view';
import { characters, clockTime, count, fullTime, interruption, modelName, whyNot } from '../words';
import { Copy } from './copy';
import { FailureCard } from './failure';
import { memo, once, useLate } from './hooks';
import { Icon } from './icons';
import { Parts } from './parts';

interface Props {
  store: Store;
  turn: Turn;
  calls: Call[];
  subs: Session[]; // of the session's calls
  active: boolean; // the session has a run that has not ended
  schedule: Schedule | undefined; // of the session, on its last turn
  model: string; // of the session, on its last turn
  version: number; // the earlier reply that is shown in place of the current one; 0: none
  superseded: number; // messages that the operator's regenerate has just superseded
  now: number; // of the page's opening or of the last run's end: no turn ticks
}

/** One operator message and its reply. */
export const TurnView = memo<Props>(DrawTurn, (a, b) => {
  const t = a.turn;
  const u = b.turn;
  return (
    a.active === b.active && a.schedule === b.schedule && a.model === b.model && a.version === b.version && a.superseded === b.superseded && t.key === u.key && t.operator === u.operator &&
    t.run === u.run && t.last === u.last && t.versions === u.versions && alike(t.runs, u.runs) && t.recovery === u.recovery && alike(t.rows, u.rows) && alike(t.live, u.live) &&
    alike(Object.values(t.results), Object.values(u.results)) && (!t.last || alike(a.calls, b.calls)) && alike(a.subs, b.subs)
  );
});

function alike(a: unknown[], b: unknown[]): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

function DrawTurn(p: Props) {
  const { store, turn, version, superseded, now } = p;
  const old = turn.versions[version - 1];
  const late = useLate(store, !!old);
  return (
    <div class="turn" data-turn={turn.key} data-from={turn.operator?.position} data-to={turn.rows.at(-1)?.position ?? turn.operator?.position}>
      {turn.operator && <Operator message={turn.operator} now={now} />}
      {old ? late && <late.OldReply store={store} turn={turn} version={version} now={now} /> : <Reply {...p} />}
      {turn.versions.length > 0 && <Switcher store={store} turn={turn} version={old ? version : 0} />}
      {!old && superseded > 0 && <p class="runline receipt">Superseded {count(superseded, 'message')}, kept readable.</p>}
    </div>
  );
}

/** The text that the current reply shows. */
export const currentText = (turn: Turn): string => joined([...turn.rows.map((m) => m.parts ?? []), ...turn.live.map(shown)]);

const joined = (steps: Part[][]): string => steps.map(textOf).filter(Boolean).join('\n\n');

function Reply({ store, turn, calls, subs, active, schedule, model, now }: Props) {
  const { operator, rows, live, run } = turn;
  const over = !turn.last || !active;
  const end = rows.at(-1);
  // A cancelled run is never shown as a failed one, whatever reached it later.
  const ending = run ? (run.state === 'failed' ? run : null) : end;
  const failure = ending?.failure;
  const recovery = run ? ending?.recovery : turn.recovery;
  const steps = [...stepsOf(rows), ...live.map((s) => ({ key: `${run?.id}/${s.step}`, run: run?.id ?? '', step: s.step, parts: shown(s), interrupted: s.interrupted }))];
  const written = steps.filter((s) => s.parts.length > 0);
  const cut = steps.findLast((s) => s.interrupted)?.interrupted ?? '';
  const cancelled = run?.state === 'cancelled' && turn.last;
  const empty = written.length === 0 && !failure && !cancelled && !cut;
  if (empty && !(over && end)) return null;
  const runId = run?.id ?? end?.run_id ?? '';
  return (
    <article class="message reply" aria-label={`Reply${end ? `, ${clockTime(end.created_at, now)}` : ''}`} tabIndex={-1}>
      <Byline end={end} now={now} />
      {steps.map((s) => (
        <Parts key={s.key} store={store} parts={s.parts} results={turn.results} calls={calls.filter((c) => c.run_id === s.run && c.step === s.step)} subs={subs.filter((c) => c.parent!.run_id === s.run && c.parent!.step === s.step)} over={over} />
      ))}
      {over && empty && <p class="aside">The reply is empty.</p>}
      {over && <Divider cut={cut} run={turn.last ? run : null} end={end} parts={steps.flatMap((s) => s.parts)} now={now} />}
      {over && failure && recovery && (
        <FailureCard store={store} failure={failure} recovery={recovery} message={operator} runId={runId} last={turn.last} schedule={schedule?.run_id === run?.id ? schedule : undefined} calls={calls.filter((c) => c.run_id === runId)} shown={length(steps.at(-1)?.parts)} chosen={run && model !== run.model ? model : ''} now={now} />
      )}
      {over && operator && <Actions store={store} message={operator} text={joined(steps.map((s) => s.parts))} busy={active} failed={!!failure} cost={costOf(runsOf(turn.versions.length + 1, turn.versions, turn.runs), rows)} />}
    </article>
  );
}

/** Rows of a reply as steps that can be drawn. */
export const stepsOf = (rows: Message[]) => rows.map((m) => ({ key: m.role === 'notice' ? m.id : `${m.run_id}/${m.step}`, run: m.run_id, step: m.step, parts: m.parts ?? [], interrupted: m.interrupted ?? '' }));

export function Byline({ end, now }: { end: Message | undefined; now: number }) {
  return (
    <header class="byline">
      <span class="who">Reply</span>
      {end?.model && <span>{modelName(end.model)}</span>}
      {end?.switched_from && (
        <span>
          instead of {modelName(end.switched_from.model)}: {whyNot(end.switched_from.reason)}
        </span>
      )}
      {end && <Time t={end.created_at} now={now} />}
    </header>
  );
}

/** Which of the replies to a message is shown, and the way to the others. */
function Switcher({ store, turn, version }: { store: Store; turn: Turn; version: number }) {
  const all = turn.versions.length + 1;
  // A reply that has shown nothing yet, or failed before it did, is not a version so far.
  const empty = version === 0 && currentText(turn) === '' && !turn.rows.some((m) => (m.parts ?? []).length > 0);
  const at = version || all;
  const group = useRef<HTMLDivElement>(null);
  const top = useRef(0); // of the group in the window, when it was pressed
  // Replies are of different lengths: what was pressed stays under the hand.
  useLayoutEffect(() => {
    const log = group.current!.closest('[role=log]');
    if (top.current && log) log.scrollTop += group.current!.getBoundingClientRect().top - top.current;
    top.current = 0;
  }, [version]);
  const go = (n: number) => {
    if (n < 1 || n > all) return;
    top.current = group.current!.getBoundingClientRect().top;
    store.showVersion(turn.key, n < all ? n : 0, n < all ? `Version ${n} of ${all}, superseded` : `Version ${n} of ${all}, current`);
  };
  return (
    <div class="switcher" role="group" aria-label="Versions of this reply" ref={group}>
      <button type="button" class="text number" aria-haspopup="dialog" onClick={() => store.show({ kind: 'versions', message: turn.key, version })}>
        {empty ? count(all - 1, 'earlier version') : `Version ${at} of ${all}`}
      </button>
      <button type="button" class="text icon-only" aria-label="Previous version" aria-disabled={at === 1} onClick={() => go(at - 1)}>
        <Icon name="back" />
      </button>
      <button type="button" class="text icon-only" aria-label="Next version" aria-disabled={at === all} onClick={() => go(at + 1)}>
        <Icon name="forward" />
      </button>
    </div>
  );
}

export const length = (parts: Part[] | undefined): number => (parts ?? []).reduce((n, p) => n + (p.kind === 'text' || p.kind === 'thinking' ? (p.text ?? '').length : 0), 0);

export function Time({ t, now }: { t: number; now: number }) {
  return (
    <time dateTime={new Date(t).toISOString()} title={fullTime(t)}>
      {clockTime(t, now)}
    </time>
  );
}

export function Operator({ message, now }: { message: Message; now: number }) {
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

export function Divider({ cut, run, end, parts, now }: { cut: string; run: Run | null; end: Message | undefined; parts: Part[]; now: number }) {
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

function Actions({ store, message, text, busy, failed, cost }: { store: Store; message: Message; text: string; busy: boolean; failed: boolean; cost: Spend }) {
  return (
    <div class="actions">
      {!failed && (
        <button type="button" class="text" disabled={busy} title={busy ? 'Stop the run first' : 'Answer the same message again (r)'} onClick={once(() => store.regenerate(message))}>
          Regenerate
        </button>
      )}
      {text && <Copy text={text} label="Copy" />}
      {!failed && (
        <button type="button" class="text" onClick={() => store.showAttempts(message.id)}>
          Attempts
        </button>
      )}
      <Cost of={cost} />
    </div>
  );
}

/** What a reply cost, where it cost anything. */
export function Cost({ of }: { of: Spend }) {
  const text = spent(of);
  return text ? (
    <span class="cost number" title="What the attempts of this reply cost">
      {text}
    </span>
  ) : null;
}
