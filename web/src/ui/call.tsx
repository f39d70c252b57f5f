import { useId, useState } from 'preact/hooks';
import type { Store } from '../store';
import type { Call as ToolCall, Part, Session, ToolProgress } from '../types';
import { stateWords } from '../list';
import { callState, rowState } from '../view';
import { count, nearTime, took } from '../words';
import { once } from './hooks';
import { Icon } from './icons';
import { Link } from './link';

interface Props {
  store: Store;
  part: Part;
  call: ToolCall | undefined;
  result: Part | undefined;
  sub: Session | undefined; // that the call has begun
  over: boolean;
}

/** One tool call: what it is about, how it stands, and what came in and out. One that is asked about is open. */
export function Call({ store, part, call, result, sub, over }: Props) {
  const { state, effect } = callState(part, call, result, over);
  const time = call?.ended_at && call.started_at ? took(call.ended_at - call.started_at) : '';
  const answer = result ?? call?.result;
  const cut = part.cut && !part.name;
  const asks = call?.state === 'asked' && !over;
  const name = part.name || 'tool call';
  return (
    <div class={`call ${asks ? 'asks' : ''}`}>
      <details class="fold" open={asks}>
        <summary>
          <Icon name={asks ? 'needs-you' : 'tool'} />
          <code>{name}</code>
          {!cut && <span class="call-target">{callTarget(part.arguments ?? call?.arguments ?? '')}</span>}
          <span class={`call-state call-${state.replaceAll(' ', '-')}`}>{state}</span>
          {effect && <span class="badge">effect</span>}
          {time && <span class="call-took">{time}</span>}
        </summary>
        <dl class="call-body">
          <dt>Input</dt>
          <dd>
            <pre tabIndex={0} role="group" aria-label={`Input of ${name}`}>
              {part.arguments || 'none'}
            </pre>
          </dd>
          {answer && (
            <>
              <dt>Output</dt>
              <dd>
                <Output of={answer} name={name} />
              </dd>
            </>
          )}
        </dl>
      </details>
      {state === 'running' && call?.progress && <Far of={call.progress} name={name} />}
      {sub && <Subagent store={store} session={sub} />}
      {asks && <Approval store={store} call={call} />}
    </div>
  );
}

/** The way to the session that the call has begun, and how that stands. */
function Subagent({ store, session: s }: { store: Store; session: Session }) {
  const state = rowState(s);
  return (
    <p class={`call-far state-${state}`}>
      <Link store={store} to={`/s/${s.id}`} class="link">
        Subagent: {s.title}
      </Link>
      <span class="row-state">{stateWords(s, state, 0) || 'done'}</span>
    </p>
  );
}

/** How far a tool says that it is. */
function Far({ of, name }: { of: ToolProgress; name: string }) {
  return (
    <p class="call-far">
      {of.total && <progress max={of.total} value={of.done} aria-label={`Progress of ${name}`} />}
      <span>{of.text || (of.total ? `${of.done} of ${of.total}` : of.done)}</span>
    </p>
  );
}

/** The operator's answer about a call that has not started. */
function Approval({ store, call }: { store: Store; call: ToolCall }) {
  const id = useId();
  const [reason, setReason] = useState('');
  const answer = (approve: boolean) => once(() => store.answerCall(call.call_id, approve, reason.trim()));
  return (
    <div class="approval">
      <p>Without an answer it is denied at {nearTime(call.approval!.expires_at)}.</p>
      <label for={id}>Reason, told to the model</label>
      <input id={id} type="text" value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
      <div class="ask-actions">
        <button type="button" class="button" onClick={answer(false)}>
          Deny
        </button>
        <button type="button" class="button primary" onClick={answer(true)}>
          Approve
        </button>
      </div>
    </div>
  );
}

/** What a tool has given: text, changes as such, and pictures. */
function Output({ of, name }: { of: Part; name: string }) {
  const content = of.content ?? [];
  const label = { tabIndex: 0, role: 'group' as const, 'aria-label': `Output of ${name}` };
  return (
    <>
      {content.map((p, i) => {
        if (p.kind === 'image' && p.data) return <img key={i} class="call-image" src={`data:${p.media_type};base64,${p.data}`} alt={`Picture from ${name}`} />;
        if (p.kind === 'image') return <p key={i} class="aside">A picture at {p.url}</p>;
        return (
          <pre key={i} {...label}>
            {p.media_type === 'text/x-diff' ? lines(p.text ?? '') : p.text}
          </pre>
        );
      })}
      {content.length === 0 && <pre {...label}>{count(0, 'part')}</pre>}
    </>
  );
}

const mark = (line: string): string | undefined => (/^(\+\+\+|---) /.test(line) ? undefined : line[0] === '+' ? 'added' : line[0] === '-' ? 'removed' : undefined);

// The signs stay: colour alone says nothing.
const lines = (diff: string) =>
  diff.replace(/\n$/, '').split('\n').map((line, i) => (
    <span key={i} class={mark(line)}>
      {line}
      {'\n'}
    </span>
  ));

/** What a call is about, for its one line: the first short string among its arguments. */
export function callTarget(json: string): string {
  try {
    const first = Object.values(JSON.parse(json) as object).find((v) => typeof v === 'string');
    return typeof first === 'string' ? first.split('\n')[0]!.slice(0, 80) : '';
  } catch {
    return ''; // the arguments are not whole yet, or are no JSON
  }
}
