import { useLayoutEffect, useRef } from 'preact/hooks';
import type { MarkdownStream } from '../prose';
import type { Store } from '../store';
import type { Call as ToolCall, Part, Session } from '../types';
import { Call } from './call';
import { useProse } from './hooks';

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
  store: Store;
  parts: Part[];
  calls: ToolCall[]; // of this step
  results: Record<string, Part>;
  subs?: Session[]; // of this step's calls
  over: boolean; // the run that wrote them has ended
}

/** A step's parts in their true order. */
export function Parts({ store, parts, calls, results, subs, over }: PartsProps) {
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
            return <Call key={i} store={store} part={p} call={calls.find((c) => c.call_id === p.call_id)} result={results[p.call_id ?? '']} sub={subs?.find((s) => s.parent!.call_id === p.call_id)} over={over} />;
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
