import type { Setting } from './types';

// What the settings' screen makes of the server's settings. Pure.

export type Values = Record<string, Setting>;

export const byKey = (list: Setting[]): Values => Object.fromEntries(list.map((s) => [s.key, s]));

const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 };

/** Reads a duration as the configuration writes it ("1h30m"), in milliseconds; null: it is none. */
export function milliseconds(text: string): number | null {
  const t = text.replace(/\s/g, '');
  if (t === '0') return 0;
  if (!/^(\d+(\.\d+)?(h|ms|m|s))+$/.test(t)) return null;
  return [...t.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s)/g)].reduce((sum, [, n, unit]) => sum + Number(n) * units[unit!]!, 0);
}

/** A wait in words, exactly: "1 min 30 s". */
function exactly(ms: number): string {
  const parts = (['h', 'm', 's'] as const).map((u) => [Math.floor((u === 'h' ? ms : ms % (units[u]! * 60)) / units[u]!), u === 'm' ? 'min' : u] as const);
  const said = parts.filter(([n]) => n > 0).map(([n, u]) => `${n} ${u}`);
  return said.length > 0 ? said.join(' ') : `${ms} ms`;
}

/** A configured duration in words; what is none stays as it is. */
export function inWords(text: string): string {
  const ms = milliseconds(text);
  return ms === null ? text : ms === 0 ? 'none' : exactly(ms);
}

/** The waits of a series of failures, until they grow no more. */
export function sequence(base: string, cap: string): string {
  const [first, most] = [milliseconds(base), milliseconds(cap)];
  if (!first || !most || first > most) return '';
  const waits: string[] = [];
  for (let w = first; ; w *= 2) {
    waits.push(exactly(Math.min(w, most)));
    if (w >= most) return `${waits.join(', ')}, and so on.`;
    if (waits.length === 6) return `${waits.join(', ')} … up to ${exactly(most)}.`;
  }
}

const sources: Record<Setting['from'], string> = { default: 'the default is', file: 'the file says', environment: 'the environment says', flag: 'a flag says' };

/** Where a value is from, where that is worth a word. say puts a value into words. */
export function origin(s: Setting, say: (value: string) => string): string {
  if (s.fixed) return s.from === 'flag' ? 'Fixed by a flag that the server was started with.' : 'Fixed by an environment variable of the server.';
  if (s.set) return `Set here; ${sources[s.from]} ${say(s.configured)}.`;
  return s.from === 'file' ? 'From the configuration file.' : '';
}
