// The character references that people and models write. Others stay as they are written.
const named: Record<string, string> = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', reg: '®', trade: '™', hellip: '…',
  mdash: '—', ndash: '–', lsquo: '‘', rsquo: '’', ldquo: '“', rdquo: '”', laquo: '«', raquo: '»', bull: '•',
  middot: '·', deg: '°', plusmn: '±', times: '×', divide: '÷', frac12: '½', euro: '€', pound: '£', sect: '§',
  para: '¶', larr: '←', uarr: '↑', rarr: '→', darr: '↓', harr: '↔', le: '≤', ge: '≥', ne: '≠', infin: '∞', shy: '\u00ad',
};

export function decode(s: string): string {
  if (!s.includes('&')) return s;
  return s.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z][a-zA-Z0-9]*));/g, (all, decimal, hex, name) => {
    if (name) return Object.hasOwn(named, name) ? named[name]! : all;
    const point = decimal ? parseInt(decimal, 10) : parseInt(hex, 16);
    const valid = point > 0 && point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
    return valid ? String.fromCodePoint(point) : '\ufffd';
  });
}
