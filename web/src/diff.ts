// What differs between two texts, word by word: Myers' algorithm in linear space (An O(ND)
// Difference Algorithm and Its Variations, 1986). Pure.

export type Kind = 'same' | 'gone' | 'new';

export interface Piece {
  kind: Kind;
  text: string;
}

/** Lines that belong beside each other: what of the first text, and what of the second. */
export interface Row {
  before: Piece[];
  after: Piece[];
}

// Words, white space, and every other character by itself.
const tokens = (text: string): string[] => text.match(/\s+|[\p{L}\p{M}\p{N}_]+|[^\s\p{L}\p{M}\p{N}_]/gu) ?? [];

/** The pieces of both texts in order: without the new ones they are the first, without those that are gone the second. */
export function diff(before: string, after: string): Piece[] {
  const a = tokens(before);
  const b = tokens(after);
  const [gone, fresh] = changes(a, b);
  const pieces: Piece[] = [];
  const put = (kind: Kind, text: string) => {
    const last = pieces.at(-1);
    if (last?.kind === kind) last.text += text;
    else pieces.push({ kind, text });
  };
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (gone[i]) put('gone', a[i++]!);
    else if (fresh[j]) put('new', b[j++]!);
    else {
      put('same', a[i++]!);
      j++;
    }
  }
  return joined(pieces);
}

// A blank between two changed words is no common ground: it is read with them.
function joined(pieces: Piece[]): Piece[] {
  const out: Piece[] = [];
  let gone = '';
  let fresh = '';
  const flush = () => {
    if (gone) out.push({ kind: 'gone', text: gone });
    if (fresh) out.push({ kind: 'new', text: fresh });
    gone = fresh = '';
  };
  pieces.forEach((p, i) => {
    if (p.kind === 'gone') gone += p.text;
    else if (p.kind === 'new') fresh += p.text;
    else if (gone && fresh && /^[^\S\n]+$/.test(p.text) && i + 1 < pieces.length) {
      gone += p.text;
      fresh += p.text;
    } else {
      flush();
      out.push(p);
    }
  });
  flush();
  return out;
}

/** The pieces in rows of lines that both texts have the end of. */
export function rows(pieces: Piece[]): Row[] {
  const all: Row[] = [];
  let row: Row = { before: [], after: [] };
  for (const p of pieces) {
    if (p.kind === 'gone') row.before.push(p);
    else if (p.kind === 'new') row.after.push(p);
    else
      p.text.split(/(?<=\n)(?!\n)/).forEach((line, i) => {
        if (i > 0) {
          all.push(row);
          row = { before: [], after: [] };
        }
        if (line === '') return;
        row.before.push({ kind: 'same', text: line });
        row.after.push({ kind: 'same', text: line });
      });
  }
  if (row.before.length + row.after.length > 0) all.push(row);
  return all;
}

// How far a path may be from the ends of what it compares: beyond, all of it counts as changed.
const bound = 1000;

/** Which of a are not in b, and which of b are not in a. */
function changes(a: string[], b: string[]): [boolean[], boolean[]] {
  const gone = new Array<boolean>(a.length).fill(false);
  const fresh = new Array<boolean>(b.length).fill(false);
  const walk = (al: number, ah: number, bl: number, bh: number): void => {
    while (al < ah && bl < bh && a[al] === b[bl]) {
      al++;
      bl++;
    }
    while (al < ah && bl < bh && a[ah - 1] === b[bh - 1]) {
      ah--;
      bh--;
    }
    const split = al < ah && bl < bh ? middle(a, b, al, ah, bl, bh) : null;
    if (!split) {
      gone.fill(true, al, ah);
      fresh.fill(true, bl, bh);
      return;
    }
    walk(al, split[0], bl, split[1]);
    walk(split[0], ah, split[1], bh);
  };
  walk(0, a.length, 0, b.length);
  return [gone, fresh];
}

/** A point on a shortest path between the corners, which differ at both; null where the path is too long to look for. */
function middle(a: string[], b: string[], al: number, ah: number, bl: number, bh: number): [number, number] | null {
  const n = ah - al;
  const m = bh - bl;
  const delta = n - m;
  const most = Math.min(Math.ceil((n + m) / 2), bound);
  const outside = -(2 ** 30);
  const size = 2 * most + 3;
  const at = (k: number) => k + most + 1;
  const forward = new Int32Array(size).fill(outside);
  const backward = new Int32Array(size).fill(outside);
  forward[at(1)] = backward[at(1)] = 0;
  // The furthest point on diagonal k with one step more, counted from the corner that v is of.
  const step = (v: Int32Array, k: number, equal: (x: number, y: number) => boolean): number => {
    const down = v[at(k + 1)]!;
    const right = v[at(k - 1)]! + 1;
    let x = outside;
    if (down >= 0 && down - k <= m) x = down;
    if (right > x && right > 0 && right <= n) x = right;
    if (x === outside) return (v[at(k)] = x);
    while (x < n && x - k < m && equal(x, x - k)) x++;
    return (v[at(k)] = x);
  };
  for (let d = 0; d <= most; d++) {
    for (let k = -d; k <= d; k += 2) {
      const x = step(forward, k, (x, y) => a[al + x] === b[bl + y]);
      const met = delta % 2 !== 0 && Math.abs(delta - k) < d && x + backward[at(delta - k)]! >= n;
      if (met) return [al + x, bl + x - k];
    }
    for (let k = -d; k <= d; k += 2) {
      const x = step(backward, k, (x, y) => a[ah - 1 - x] === b[bh - 1 - y]);
      const met = delta % 2 === 0 && Math.abs(delta - k) <= d && x + forward[at(delta - k)]! >= n;
      if (met) return [ah - x, bh - (x - k)];
    }
  }
  return null;
}
