import { Lexer, type MarkedToken, type Tokens } from 'marked';
import { block } from './draw';

// A document that grows at its end. What can no longer change is sealed: its nodes stay and
// its text is not read again. Each write reads only the open tail. However the text is cut
// into writes, the nodes are those of the whole document drawn at once.

// The start of a link definition, which may turn text far above it into a link: from there
// on nothing is sealed.
const definition = /(?:^|\n)[ \t>*+\-\d.)]*\[(?:\\[\s\S]|[^[\]\\])+\]:/;

interface Drawn {
  token: MarkedToken;
  level: number; // of a heading, in the page
  node: Node | null;
}

export class MarkdownStream {
  #root: HTMLElement;
  #text = '';
  #sealed = 0; // characters of #text
  #tail: Drawn[] = [];
  #outline: number[] = []; // depths of the headings that are open at the end of what is sealed
  #whole = false; // it has link definitions: the tail is the document

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  /** Draws text, which begins with all that was written before. Other text starts anew. */
  write(text: string): void {
    text = normal(text);
    if (!text.startsWith(this.#text)) this.#reset();
    if (text === this.#text) return;
    this.#text = text;
    if (!this.#whole && definition.test(text.slice(this.#sealed))) {
      this.#reset();
      this.#text = text;
      this.#whole = true;
    }
    const tokens = lex(text.slice(this.#sealed));
    this.#draw(tokens);
    if (!this.#whole) this.#seal(tokens);
  }

  #reset(): void {
    this.#root.replaceChildren();
    this.#text = '';
    this.#sealed = 0;
    this.#tail = [];
    this.#outline = [];
    this.#whole = false;
  }

  #draw(tokens: MarkedToken[]): void {
    // What the next new node is put before.
    let at: Node | null = this.#tail.find((d) => d.node)?.node ?? null;
    const drawn: Drawn[] = [];
    const outline = [...this.#outline];
    for (let i = 0; i < tokens.length; i++) {
      const token = tokens[i]!;
      const old = this.#tail[i];
      const level = enter(outline, token);
      const node = old ? redraw(old, token, level) : block(token, level);
      drawn.push({ token, level, node });
      if (old?.node && old.node !== node) {
        if (at === old.node) at = old.node.nextSibling;
        old.node.parentNode!.removeChild(old.node);
      }
      if (!node) continue;
      if (node === at) at = at.nextSibling;
      else this.#root.insertBefore(node, at);
    }
    for (const old of this.#tail.slice(tokens.length)) old.node?.parentNode?.removeChild(old.node);
    this.#tail = drawn;
  }

  // A block is sealed once a whole line of another block follows it: half a line may still
  // turn out to belong to the block before.
  #seal(tokens: MarkedToken[]): void {
    const tail = this.#text.slice(this.#sealed);
    let sealed = 0;
    let count = 0;
    let end = 0;
    for (let i = 0; i < tokens.length - 1; i++) {
      end += tokens[i]!.raw.length;
      const line = tail.indexOf('\n', end) + 1;
      if (line === 0) break;
      if (tail.slice(end, line).trim() === '') continue;
      sealed = end;
      count = i + 1;
    }
    for (const token of tokens.slice(0, count)) enter(this.#outline, token);
    this.#sealed += sealed;
    this.#tail = this.#tail.slice(count);
  }
}

// The reader of blocks takes line ends and tabs in this form.
function normal(text: string): string {
  return text.replace(/\r\n|\r/g, '\n');
}

function lex(text: string): MarkedToken[] {
  return new Lexer({ gfm: true }).lex(text) as MarkedToken[];
}

// Gives the node of a token, using what is drawn where the token has only grown.
function redraw(old: Drawn, token: MarkedToken, level: number): Node | null {
  const was = old.token;
  if (was.raw === token.raw && was.type === token.type && level === old.level && !token.raw.includes('[')) return old.node;
  if (was.type === 'code' && token.type === 'code' && was.lang === token.lang && token.text.startsWith(was.text)) {
    const text = old.node!.firstChild!.firstChild as Text | null;
    if (text) {
      text.appendData(token.text.slice(was.text.length));
      return old.node;
    }
  }
  if (was.type === 'list' && token.type === 'list' && sameKind(was, token)) {
    redrawItems(old.node!, was, token);
    return old.node;
  }
  return block(token, level);
}

// The page's title is its first level. A model may begin with any depth and leave some out:
// the outline goes down one level at a time.
function enter(outline: number[], token: MarkedToken): number {
  if (token.type !== 'heading') return 0;
  while (outline.length > 0 && outline.at(-1)! >= token.depth) outline.pop();
  outline.push(token.depth);
  return Math.min(1 + outline.length, 6);
}

function sameKind(a: Tokens.List, b: Tokens.List): boolean {
  return a.ordered === b.ordered && a.start === b.start && !b.raw.includes('[');
}

function redrawItems(node: Node, was: Tokens.List, now: Tokens.List): void {
  const nodes = [...node.childNodes];
  now.items.forEach((item, i) => {
    const before = was.items[i];
    if (before && before.raw === item.raw && before.loose === item.loose) return;
    const drawn = block(item as MarkedToken)!;
    if (nodes[i]) node.replaceChild(drawn, nodes[i]);
    else node.appendChild(drawn);
  });
  for (const extra of nodes.slice(now.items.length)) node.removeChild(extra);
}

/** Draws a whole document at once. */
export function drawDocument(root: HTMLElement, text: string): void {
  new MarkdownStream(root).write(text);
}
