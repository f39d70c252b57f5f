import { nextStep, type Act } from '../never';
import { retryBar } from '../retry';
import type { Store } from '../store';
import { textOf, type Failure, type Message, type Recovery, type Schedule, type ToolCall } from '../types';
import { headline, modelName, safeToRepeat, whyNot, worthRetrying, type Verdict } from '../words';
import { once } from './hooks';
import { Icon } from './icons';

interface Props {
  store: Store;
  failure: Failure;
  recovery: Recovery;
  message: Message | null;
  runId: string;
  last: boolean;
  schedule: Schedule | undefined; // what is to happen after it
  calls: ToolCall[]; // of the run
  shown: number;
  chosen: string; // the session's model, where that is not the run's any more
  now: number;
}

/** Why a reply failed: what happened, both answers apart, and what can be done. */
export function FailureCard({ store, failure, recovery, message, runId, last, schedule: s, calls, shown, chosen, now }: Props) {
  // The schedule's word is the newer one. What the retry bar says and offers is not said twice.
  const known = s ? { ...recovery, replay_safe: s.replay_safe, evidence: s.evidence, reason: s.reason } : recovery;
  const bar = s ? retryBar(s, undefined, false, now) : null;
  const step = nextStep(failure, known, shown, calls, chosen, now);
  const choices = recovery.choices ?? [];
  return (
    <div class="failure" role="group" aria-label="What went wrong">
      <p class="failure-head">
        <Icon name="needs-you" />
        {headline(failure)}
      </p>
      <Verdicts worth={worthRetrying(failure)} safe={safeToRepeat(known)} />
      {last && !bar && <p class="failure-next">{step.text}</p>}
      {!last && recovery.cancelled === 'message' && <p class="failure-next">Retry cancelled: you sent a new message.</p>}
      <div class="failure-actions">
        {last && message && !bar && step.act !== 'Attempts' && (
          <button type="button" class="button" onClick={once(() => act(store, step.act, message))}>
            {step.act}
          </button>
        )}
        {last && choices.includes('resume') && !(bar && s?.verb === 'resume') && (
          <button type="button" class="button" onClick={once(() => store.resume(runId))}>
            Resume after the last finished step
          </button>
        )}
        {last && message && (bar ? bar.main === 'Schedule it' : step.anyway) && (
          <button type="button" class="text" onClick={once(() => store.regenerate(message))}>
            Retry anyway
          </button>
        )}
        {message && (
          <button type="button" class={last && !bar && step.act === 'Attempts' ? 'button' : 'text'} onClick={() => store.showAttempts(message.id)}>
            Attempts
          </button>
        )}
      </div>
      <details class="fold">
        <summary>Details</summary>
        <dl class="facts">
          {facts(failure).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </details>
    </div>
  );
}

function act(store: Store, what: Act, message: Message): void {
  switch (what) {
    case 'Review effects':
      return store.show({ kind: 'effects' });
    case 'Raise limit':
      return store.show({ kind: 'limit' });
    case 'Change model':
      return chooseModel();
    case 'Edit message':
      return compose(textOf(message.parts));
  }
  void store.regenerate(message);
}

function chooseModel(): void {
  const picker = document.querySelector<HTMLSelectElement>('.composer select');
  picker?.focus();
  picker?.showPicker?.();
}

// A message that was sent stays as it is: what is edited is a new one.
function compose(text: string): void {
  const box = document.querySelector<HTMLTextAreaElement>('#composer');
  if (!box) return;
  box.value = box.value.trim() === '' ? text : `${box.value}\n\n${text}`;
  box.dispatchEvent(new Event('input', { bubbles: true }));
  box.focus();
}

function facts(f: Failure): [string, string][] {
  const all: [string, string | number | undefined][] = [
    ['Message', f.message],
    ['Class', f.retry_class],
    ['Provider', f.provider],
    ['Model', f.model],
    ['HTTP status', f.status],
    ['Code', f.code],
    ['Request id', f.request_id],
  ];
  const tried = (f.tried ?? []).map((o): [string, string] => [modelName(o.model) + (o.key ? ` with ${o.key}` : ''), whyNot(o.failed || o.skipped || '')]);
  return [...all.filter(([, v]) => v).map(([k, v]): [string, string] => [k, String(v)]), ...tried];
}

/** The two questions, always both and always apart. */
export function Verdicts({ worth, safe }: { worth: Verdict; safe: Verdict }) {
  return (
    <dl class="verdicts">
      <Line name="Worth retrying" verdict={worth} />
      <Line name="Safe to repeat" verdict={safe} />
    </dl>
  );
}

function Line({ name, verdict }: { name: string; verdict: Verdict }) {
  return (
    <div class={verdict.yes ? 'yes' : 'no'}>
      <dt>
        <Icon name={verdict.yes ? 'check' : 'failed'} />
        {name}:
      </dt>
      <dd>
        <strong>{verdict.yes ? 'yes' : 'no'}</strong>
        {verdict.why && `, ${verdict.why}`}
      </dd>
    </div>
  );
}
