import { describe, expect, test } from 'vitest';
import { diff, rows, type Piece } from '../src/diff';

const text = (pieces: Piece[], without: Piece['kind']) => pieces.filter((p) => p.kind !== without).map((p) => p.text).join('');
const short = (pieces: Piece[]) => pieces.map((p) => (p.kind === 'gone' ? `[-${p.text}-]` : p.kind === 'new' ? `{+${p.text}+}` : p.text)).join('');

test.each([
  ['', '', ''],
  ['same', 'same', 'same'],
  ['', 'all new', '{+all new+}'],
  ['all gone', '', '[-all gone-]'],
  ['one two three', 'one 2 three', 'one [-two-]{+2+} three'],
  ['the red house stands', 'the blue boat stands', 'the [-red house-]{+blue boat+} stands'],
  ['It is done.', 'It is not done.', 'It is {+not +}done.'],
  ['a naïve plan, 3 steps', 'a naïve plan; 3 steps', 'a naïve plan[-,-]{+;+} 3 steps'],
])('%j and %j', (a, b, want) => expect(short(diff(a, b))).toBe(want));

// The length of a longest common subsequence, by the plain table.
function common(a: string, b: string): number {
  let row = new Array<number>(b.length + 1).fill(0);
  for (const x of a) {
    const next = [0];
    for (let j = 0; j < b.length; j++) next.push(x === b[j] ? row[j]! + 1 : Math.max(row[j + 1]!, next[j]!));
    row = next;
  }
  return row[b.length]!;
}

describe('small worlds', () => {
  const all: string[] = [''];
  for (let i = 0; all[i]!.length < 6; i++) for (const c of '.,') all.push(all[i] + c);
  test(`every pair of ${all.length} texts: both are whole, and the most is kept`, () => {
    for (const a of all)
      for (const b of all) {
        const pieces = diff(a, b);
        if (text(pieces, 'new') !== a || text(pieces, 'gone') !== b) throw new Error(`${a} ${b}: ${short(pieces)}`);
        const same = pieces.filter((p) => p.kind === 'same').reduce((n, p) => n + p.text.length, 0);
        if (same !== common(a, b)) throw new Error(`${a} ${b}: ${short(pieces)} keeps ${same} of ${common(a, b)}`);
      }
  });
});

test('long texts that have nothing in common take no longer than they may', () => {
  const a = Array.from({ length: 20_000 }, (_, i) => `a${i}`).join(' ');
  const b = Array.from({ length: 20_000 }, (_, i) => `b${i}`).join('\n');
  const began = performance.now();
  const pieces = diff(a, b);
  expect(performance.now() - began).toBeLessThan(2000);
  expect([text(pieces, 'new') === a, text(pieces, 'gone') === b]).toEqual([true, true]);
});

test('rows end with lines that both texts end', () => {
  const made = rows(diff('Head\n\none two\n\ntail\n', 'Head\n\none 2\nmore\n\ntail\n'));
  expect(made.map((r) => [short(r.before), short(r.after)])).toEqual([
    ['Head\n\n', 'Head\n\n'],
    ['one [-two-]\n\n', 'one {+2\nmore+}\n\n'],
    ['tail\n', 'tail\n'],
  ]);
});
