import { describe, expect, test } from 'vitest';
import { drawDocument, MarkdownStream } from '../src/markdown/stream';

const html = (draw: (root: HTMLElement) => void): string => {
  const root = document.createElement('div');
  draw(root);
  return root.innerHTML;
};
const whole = (text: string) => html((root) => drawDocument(root, text));

// A generator of its own, so that a failure can be repeated from its seed.
function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const nasty = [
  'Plain words, **bold**, *thin*, `code` and ~~gone~~.\n',
  'Two\nlines  \nand a break.\n\n',
  '# Heading\n',
  '### Deep heading\n\n',
  '###### Deepest\n',
  'Setext head\n===\n',
  'Another\nhead\n---\n\n',
  '- one\n- two\n',
  '- loose\n\n- list\n\n',
  '1. first\n2. second\n   continued\n\n   paragraph\n',
  '3) three\n4) four\n\n',
  '* outer\n  * inner\n    - innermost\n',
  '- [ ] open\n- [x] done\n\n',
  '> quoted\nlazily\n\n',
  '> - list in quote\n> ```\n> fence\n> ```\n',
  '```go\nfunc f(a []int) {\n\n\treturn\n}\n```\n',
  '````\n```\nnested\n```\n````\n\n',
  '~~~\nnever closed\n\n',
  '    indented\n\n    code\n\n',
  '| a | b |\n|---|:-:|\n| 1 | **2** |\n| 3 |\n\n',
  '| not | a table\n',
  '***\n',
  '<div onclick="x()">\nraw <b>html</b>\n</div>\n\n',
  '<!-- comment\n\nthat is long -->\n',
  '[link](https://example.org) and [ref] and [other][def] <https://a.example>\n\n',
  '[ref]: https://example.org/ref "title"\n',
  '[def]:\n  https://example.org/def\n\n',
  '[open bracket\n\nthat goes on]: nowhere\n',
  '[unclosed\n\n',
  'a &amp; b &lt;c&gt; &#65; &nope; \\* \\[ <script>alert(1)</script>\n\n',
  '![picture](https://example.org/p.png) [bad](javascript:alert(1)) [host](//evil.example)\n',
  '\n',
  '\n\n\n',
  'windows\r\nlines\r\n\r\n',
  '-\n',
  '- \n\n  text after empty item\n',
  '  indented by two\n',
  '\ttab\n\n',
  '1986. A great year\n\n',
  'text\n# heading right after\nmore\n',
  'text\n```\nfence right after\n```\nmore\n\n',
  '+ plus\n+\n+ list\n\n+ loose at last\n',
  'www.example.org and user@example.org\n\n',
];

describe('the streamed document is the whole document', () => {
  // The number of documents is bounded by what a test run may take; each has its own seed.
  test.each(Array.from({ length: 40 }, (_, i) => i))('documents of seed %i', (seed) => {
    const next = random(seed + 1);
    for (let n = 0; n < 25; n++) {
      let text = '';
      for (let k = 1 + Math.floor(next() * 9); k > 0; k--) text += nasty[Math.floor(next() * nasty.length)];
      if (next() < 0.5) text = text.slice(0, Math.floor(next() * text.length));
      const root = document.createElement('div');
      const stream = new MarkdownStream(root);
      for (let at = 0; at < text.length; ) {
        at = Math.min(text.length, at + 1 + Math.floor(next() * (next() < 0.3 ? 60 : 6)));
        stream.write(text.slice(0, at));
      }
      expect(root.innerHTML, JSON.stringify(text)).toBe(whole(text));
    }
  });

  test('every prefix of every pair, one character at a time', () => {
    for (const a of nasty) {
      for (const b of nasty.slice(0, 24)) {
        const root = document.createElement('div');
        const stream = new MarkdownStream(root);
        const text = a + b;
        for (let at = 1; at <= text.length; at++) stream.write(text.slice(0, at));
        expect(root.innerHTML, JSON.stringify(text)).toBe(whole(text));
      }
    }
  });
});

test('sealed nodes stay the same nodes while the text grows', () => {
  const root = document.createElement('div');
  const stream = new MarkdownStream(root);
  stream.write('First.\n\nSecond.\n\nThird');
  const first = root.firstChild;
  stream.write('First.\n\nSecond.\n\nThird.\n\nFourth.\n');
  expect(root.firstChild).toBe(first);
  expect(root.childNodes.length).toBe(4);
});

test('other text starts anew', () => {
  const root = document.createElement('div');
  const stream = new MarkdownStream(root);
  stream.write('One.\n\nTwo.\n\nThree.\n');
  stream.write('Else.\n');
  expect(root.innerHTML).toBe('<p>Else.</p>');
});

describe('nothing runs and nothing is fetched', () => {
  test('HTML is text', () => {
    const out = document.createElement('div');
    drawDocument(out, '<img src=x onerror=alert(1)>\n\na <b onclick="x()">b</b>\n\n<script>alert(1)</script>\n');
    expect(out.querySelectorAll('img, script, b').length).toBe(0);
    expect(out.textContent).toContain('<img src=x onerror=alert(1)>');
  });

  test.each(['javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'data:text/html,x', 'vbscript:x', '//evil.example', '/api/v1/sessions', 'java&#115;cript:x', '&#106;avascript:x'])(
    'no link to %s',
    (href) => {
      expect(whole(`[text](${href})\n`)).toBe('<p>text</p>');
    },
  );

  test('links keep to themselves', () => {
    expect(whole('[a](https://example.org "t")')).toBe(
      '<p><a href="https://example.org" title="t (https://example.org)" target="_blank" rel="noopener noreferrer nofollow">a</a></p>',
    );
  });

  test('an image is a link', () => {
    expect(whole('![cat](https://example.org/cat.png)')).toContain('>cat</a>');
  });
});

test.each([
  ['# A', '<h2>A</h2>'],
  ['### A\n##### B\n#### C\n## D\n### E', '<h2>A</h2><h3>B</h3><h3>C</h3><h2>D</h2><h3>E</h3>'],
  ['> # A', '<blockquote><p class="heading">A</p></blockquote>'],
  ['a &amp; b &unknown; &#x41;', '<p>a &amp; b &amp;unknown; A</p>'],
  ['- a\n- b', '<ul><li>a</li><li>b</li></ul>'],
  ['2. a', '<ol start="2"><li>a</li></ol>'],
])('%j is drawn as %s', (text, expected) => {
  expect(whole(text)).toBe(expected);
});

test('an entity in code is not decoded', () => {
  expect(whole('`&lt;`')).toBe('<p><code>&amp;lt;</code></p>');
});
