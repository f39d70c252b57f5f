import { spent } from '../money';
import type { App, Store } from '../store';
import { textOf, type Message } from '../types';
import type { Turn } from '../view';
import { costOf, resultsOf, runsOf, type Version } from '../versions';
import { characters, clockTime, count, modelName, outcomeWords, triggerWords } from '../words';
import { Dialog } from './dialog';
import { Parts } from './parts';
import { Byline, Cost, currentText, Divider, length, Operator, stepsOf, Time } from './turn';

interface Props {
  store: Store;
  turn: Turn;
  version: number; // from 1
  now: number;
}

/** An earlier reply in the place of the current one, with what had followed it: to read, nothing else. */
export function OldReply({ store, turn, version, now }: Props) {
  const v = turn.versions[version - 1]!;
  const end = v.rows.at(-1);
  const name = `Version ${version}`;
  return (
    <div class="old-line">
      <section class="old-bar" aria-label={name}>
        <p class="number">
          <strong>{name}</strong> · superseded <Time t={v.at} now={now} />
          {v.by && ` by ${triggerWords(v.by)}`} · read only
        </p>
        <div class="old-actions">
          {currentText(turn) !== '' && (
            <button type="button" class="text" onClick={() => store.show({ kind: 'compare', message: turn.key, version })}>
              Compare with current
            </button>
          )}
          <button type="button" class="button" onClick={() => store.showVersion(turn.key, 0, 'Back to the current version')}>
            Back to current
          </button>
        </div>
      </section>
      <article class="message reply" aria-label={`Reply, ${name}${end ? `, ${clockTime(end.created_at, now)}` : ''}, superseded`} tabIndex={-1}>
        <Byline end={end} now={now} />
        <Steps store={store} rows={v.rows} results={v.results} />
        {length(v.rows.flatMap((m) => m.parts ?? [])) === 0 && <p class="aside">Nothing had been shown.</p>}
        <Divider cut={end?.interrupted ?? ''} run={null} end={end} parts={v.rows.flatMap((m) => m.parts ?? [])} now={now} />
        <div class="actions">
          <button type="button" class="text" onClick={() => store.showAttempts(turn.key)}>
            Attempts
          </button>
          <Cost of={costOf(runsOf(version, turn.versions, turn.runs), v.rows)} />
        </div>
      </article>
      {v.later.length > 0 && <Later store={store} messages={v.later} now={now} />}
    </div>
  );
}

function Steps({ store, rows, results }: { store: Store; rows: Message[]; results: Version['results'] }) {
  return (
    <>
      {stepsOf(rows).map((s) => (
        <Parts key={s.key} store={store} parts={s.parts} calls={[]} results={results} over />
      ))}
    </>
  );
}

/** What had followed a reply that was superseded. */
function Later({ store, messages, now }: { store: Store; messages: Message[]; now: number }) {
  const results = resultsOf(messages);
  return (
    <section class="later" aria-label="What followed this version">
      <p class="later-head">What followed this version, superseded with it</p>
      {messages.map((m) =>
        m.role === 'operator' ? (
          <Operator key={m.id} message={m} now={now} />
        ) : (
          m.role === 'reply' &&
          (m.parts ?? []).length > 0 && (
            <article key={m.id} class="message reply" aria-label={`Reply, ${clockTime(m.created_at, now)}, superseded`} tabIndex={-1}>
              <Byline end={m} now={now} />
              <Steps store={store} rows={[m]} results={results} />
              <Divider cut={m.interrupted ?? ''} run={null} end={m} parts={m.parts ?? []} now={now} />
            </article>
          )
        ),
      )}
    </section>
  );
}

/** Every version of a reply, oldest first. */
export function Versions({ store, app, turn, version, now }: Props & { app: App }) {
  const all = turn.versions.length + 1;
  const current = turn.run ?? app.server.focus?.runs[turn.rows.at(-1)?.run_id ?? ''];
  const entries = [...turn.versions.map((v) => ({ run: v.run, rows: v.rows, old: v as Version | null })), { run: current, rows: turn.rows, old: null }];
  const text = currentText(turn);
  return (
    <Dialog onClose={() => store.closeDialog()} title="Versions" class="wide">
      <p class="soft">Of the reply to “{excerpt(textOf(turn.operator?.parts))}”</p>
      <ol class="version-list">
        {entries.map(({ run, rows, old }, i) => {
          const n = i + 1;
          const end = rows.at(-1);
          const size = old ? length(rows.flatMap((m) => m.parts ?? [])) : text.length;
          const shown = (version || all) === n;
          return (
            <li key={n} aria-current={shown ? 'true' : undefined}>
              <div>
                <h3>
                  Version {n}
                  {!old && <span class="badge">current</span>}
                </h3>
                <p class="soft number">
                  {[
                    run && <Time key="t" t={run.queued_at} now={now} />,
                    run && triggerWords(run),
                    end?.model && modelName(end.model),
                    run && outcomeWords(run, end?.interrupted ?? ''),
                    characters(size),
                    spent(costOf(runsOf(n, turn.versions, turn.runs), rows)) || 'no cost',
                    old && old.later.length > 0 && `${count(old.later.filter((m) => m.role === 'operator').length, 'later message')}`,
                  ]
                    .filter(Boolean)
                    .map((part, k) => (
                      <span key={k}>
                        {k > 0 && ' · '}
                        {part}
                      </span>
                    ))}
                </p>
              </div>
              <div class="version-actions">
                {old && text !== '' && (
                  <button type="button" class="text" aria-label={`Compare version ${n} with current`} onClick={() => store.show({ kind: 'compare', message: turn.key, version: n })}>
                    Compare with current
                  </button>
                )}
                <button type="button" class="button" aria-label={`Show version ${n}`} disabled={shown} onClick={() => store.showVersion(turn.key, old ? n : 0)}>
                  {shown ? 'Shown' : 'Show'}
                </button>
              </div>
            </li>
          );
        })}
      </ol>
    </Dialog>
  );
}

export const excerpt = (said: string): string => {
  const line = said.trim().split('\n')[0] ?? '';
  return line.length > 60 ? `${line.slice(0, 59).trimEnd()}…` : line;
};
