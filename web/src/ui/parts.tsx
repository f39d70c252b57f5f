import { useLayoutEffect, useRef } from 'preact/hooks';
import type { MarkdownStream } from '../prose';
import type { Part, ToolCall } from '../types';
import { callState } from '../view';
import { count, took } from '../words';
import { useProse } from './hooks';
import { Icon } from './icons';

/** Markdown that may grow: what is drawn stays, and only its open end is drawn again. */
export function Markdown({ text }: { text: string }) {
  const root = useRef<HTMLDivElement>(null);
  const stream = useRef<MarkdownStream | null>(null);
  const drawer = useProse();
  useLayoutEffect(() => {
    if (!drawer) return plain(root.current!, text);
    if (!stream.current) {
      root.current!.replaceChildren();
      stream.current = new drawer.MarkdownStream(root.current!);
    }
    stream.current.write(text);
  }, [text, drawer]);
  return <div class="prose" ref={root} />;
}

// Until what draws it is there, text shows as it is written.
function plain(root: HTMLElement, text: string): void {
  root.replaceChildren(
    ...text.split(/\n\s*\n/).map((paragraph) => {
      const p = document.createElement('p');
      p.className = 'plain';
      p.textContent = paragraph;
      return p;
    }),
  );
}

export interface PartsProps {
  parts: Part[];
  calls: ToolCall[]; // of this step
  results: Record<string, Part>;
  over: boolean; // the run that wrote them has ended
}

/** A step's parts in their true order. */
export function Parts({ parts, calls, results, over }: PartsProps) {
  return (
    <>
      {parts.map((p, i) => {
        switch (p.kind) {
          case 'text':
            return <Markdown key={i} text={p.text ?? ''} />;
          case 'thinking':
            return <Thinking key={i} text={p.text ?? ''} open={!over && i === parts.length - 1} />;
          case 'redacted_thinking':
            return (
              <p key={i} class="aside">
                Thinking that only the provider can read
              </p>
            );
          case 'tool_call':
            return <Call key={i} part={p} call={calls.find((c) => c.call_id === p.call_id)} result={results[p.call_id ?? '']} over={over} />;
          case 'notice':
            return (
              <p key={i} class="aside">
                {p.text}
              </p>
            );
        }
        return (
          <p key={i} class="aside">
            Content of a kind this page does not show{p.name ? `: ${p.name}` : ''}
          </p>
        );
      })}
    </>
  );
}

function Thinking({ text, open }: { text: string; open: boolean }) {
  return (
    <details class="fold">
      <summary>{open ? 'Thinking…' : 'Thought'}</summary>
      <p class="thinking">{text}</p>
    </details>
  );
}

function Call({ part, call, result, over }: { part: Part; call: ToolCall | undefined; result: Part | undefined; over: boolean }) {
  const { state, effect } = callState(part, call, result, over);
  const time = call?.ended_at ? took(call.ended_at - call.started_at) : '';
  const answer = result ?? call?.result;
  const output = (answer?.content ?? []).map((c) => c.text ?? '').join('\n');
  const cut = part.cut && !part.name;
  return (
    <details class="fold call">
      <summary>
        <Icon name="tool" />
        <code>{part.name || 'tool call'}</code>
        {!cut && <span class="call-target">{callTarget(part.arguments ?? call?.arguments ?? '')}</span>}
        <span class={`call-state call-${state.replaceAll(' ', '-')}`}>{state}</span>
        {effect && <span class="badge">effect</span>}
        {time && <span class="call-took">{time}</span>}
      </summary>
      <dl class="call-body">
        <dt>Input</dt>
        <dd>
          <pre tabIndex={0} role="group" aria-label={`Input of ${part.name || 'the tool call'}`}>
            {part.arguments || 'none'}
          </pre>
        </dd>
        {answer && (
          <>
            <dt>Output</dt>
            <dd>
              <pre tabIndex={0} role="group" aria-label={`Output of ${part.name || 'the tool call'}`}>
                {output || count(answer.content?.length ?? 0, 'part')}
              </pre>
            </dd>
          </>
        )}
      </dl>
    </details>
  );
}

/** What a call is about, for its one line: the first short string among its arguments. */
export function callTarget(json: string): string {
  try {
    const first = Object.values(JSON.parse(json) as object).find((v) => typeof v === 'string');
    return typeof first === 'string' ? first.split('\n')[0]!.slice(0, 80) : '';
  } catch {
    return ''; // the arguments are not whole yet, or are no JSON
  }
}
