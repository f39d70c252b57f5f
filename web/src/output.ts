import type { Part, StreamEvent } from './types';

// The page's fold of published events into parts: the same as the server's, so that a
// committed message replaces what was streamed without a visible change.

export interface Folded {
  parts: (Part | undefined)[]; // by the index that the events carry
  interrupted: string;
}

export const nothing: Folded = { parts: [], interrupted: '' };

/** Folds events in and returns a new value; parts that did not change stay the same objects. */
export function fold(before: Folded, events: StreamEvent[]): Folded {
  const parts = before.parts.slice();
  let interrupted = before.interrupted;
  const change = (e: StreamEvent, kind: string, with_: (p: Part) => Partial<Part>) => {
    const i = e.part ?? 0;
    const p = parts[i] ?? { kind };
    parts[i] = { ...p, ...with_(p) };
  };
  for (const e of events) {
    const text = e.text ?? '';
    switch (e.kind) {
      case 'text':
      case 'thinking':
      case 'redacted_thinking':
        if (text) change(e, e.kind, (p) => ({ text: (p.text ?? '') + text }));
        break;
      case 'call_start':
        change(e, 'tool_call', () => ({ call_id: e.id, name: e.name, cut: true }));
        break;
      case 'call_delta':
        change(e, 'tool_call', (p) => ({ arguments: (p.arguments ?? '') + text, cut: p.cut ?? true }));
        break;
      case 'call_end':
        change(e, 'tool_call', () => ({ cut: false }));
        break;
      case 'call_cut':
        change(e, 'tool_call', () => ({ cut: true }));
        break;
      case 'opaque':
        change(e, 'opaque', () => ({ name: e.name }));
        break;
      case 'interrupted':
        interrupted = text || 'interrupted';
        break;
    }
  }
  return { parts, interrupted };
}

/** The parts that show something, in order. */
export const shown = (f: Folded): Part[] => f.parts.filter((p): p is Part => p !== undefined);
