import type { MarkedToken, Token, Tokens } from 'marked';
import { decode } from './entities';

// Draws markdown tokens as DOM nodes out of a fixed set of elements. No HTML string is ever
// parsed: HTML in the text is shown as text, images are links, and links go to http, https
// and mailto only.

const safeLink = /^(?:https?:\/\/|mailto:)/i;

type Child = Node | string;

export function element(tag: string, children: Child[] = [], attributes: Record<string, string> = {}): HTMLElement {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

const inlines = (tokens: Token[] | undefined): Node[] => (tokens ?? []).flatMap((t) => inline(t as MarkedToken));

export function blocks(tokens: Token[]): Node[] {
  return tokens.flatMap((t) => block(t as MarkedToken) ?? []);
}

/**
 * Draws one block; null for what shows nothing (blank lines, link definitions). level is that
 * of a heading in the page; one inside another block has none, it is no part of the outline.
 */
export function block(t: MarkedToken, level = 0): Node | null {
  switch (t.type) {
    case 'space':
    case 'def':
      return null;
    case 'paragraph':
      return element('p', inlines(t.tokens));
    case 'heading':
      return level > 0 ? element(`h${level}`, inlines(t.tokens)) : element('p', inlines(t.tokens), { class: 'heading' });
    case 'code':
      return code(t);
    case 'blockquote':
      return element('blockquote', blocks(t.tokens));
    case 'list':
      return list(t);
    case 'list_item':
      return item(t);
    case 'table':
      return table(t);
    case 'hr':
      return element('hr');
    case 'html':
      return element('p', [t.text.trimEnd()], { class: 'raw' });
    case 'text':
      return element('p', t.tokens ? inlines(t.tokens) : [decode(t.text)]);
    default:
      return element('p', inline(t));
  }
}

function inline(t: MarkedToken): Node[] {
  switch (t.type) {
    case 'strong':
    case 'em':
    case 'del':
      return [element(t.type, inlines(t.tokens))];
    case 'codespan':
      return [element('code', [t.text])];
    case 'br':
      return [element('br')];
    case 'link':
      return link(t.href, t.title, inlines(t.tokens));
    case 'image':
      return link(t.href, t.title, [new Text(t.text ? decode(t.text) : 'image')]);
    case 'html':
      return [new Text(t.raw)];
    case 'checkbox':
      return [checkbox(t.checked)];
    case 'escape':
      return [new Text(t.text)];
    case 'text':
      return t.tokens ? inlines(t.tokens) : [new Text(decode(t.text))];
    default:
      return [new Text(t.raw)];
  }
}

function link(href: string, title: string | null | undefined, children: Node[]): Node[] {
  const to = decode(href);
  if (!safeLink.test(to)) return children;
  return [element('a', children, { href: to, title: title ? `${title} (${to})` : to, target: '_blank', rel: 'noopener noreferrer nofollow' })];
}

function code(t: Tokens.Code): HTMLElement {
  const language = t.lang?.match(/^\S+/)?.[0] ?? '';
  const name = language ? `Code, ${language}` : 'Code';
  const pre = element('pre', [element('code', [t.text])], { tabindex: '0', role: 'group', 'aria-label': name });
  if (language) pre.dataset.language = language;
  return pre;
}

function list(t: Tokens.List): HTMLElement {
  const start: Record<string, string> = t.ordered && t.start !== 1 && t.start !== '' ? { start: String(t.start) } : {};
  return element(t.ordered ? 'ol' : 'ul', t.items.map(item), start);
}

function item(t: Tokens.ListItem): HTMLElement {
  const children: Node[] = t.tokens.flatMap((c) => {
    // The text of a tight item is not a paragraph.
    if (c.type === 'text') return inline(c as MarkedToken);
    if (c.type === 'checkbox') return inline(c as MarkedToken);
    return block(c as MarkedToken) ?? [];
  });
  return element('li', children, t.task ? { class: 'task' } : {});
}

function checkbox(checked: boolean): HTMLElement {
  const box = element('input', [], { type: 'checkbox', disabled: '', 'aria-label': checked ? 'done' : 'not done' });
  if (checked) box.setAttribute('checked', '');
  return box;
}

function table(t: Tokens.Table): HTMLElement {
  const cell = (tag: string, c: Tokens.TableCell) => {
    const attributes: Record<string, string> = tag === 'th' ? { scope: 'col' } : {};
    if (c.align) attributes.class = c.align;
    return element(tag, inlines(c.tokens), attributes);
  };
  const head = element('thead', [element('tr', t.header.map((c) => cell('th', c)))]);
  const body = element('tbody', t.rows.map((r) => element('tr', r.map((c) => cell('td', c)))));
  // The box scrolls, so it takes the focus. It is a group and no region: two landmarks of one
  // name could not be told apart.
  return element('div', [element('table', [head, body])], { class: 'table', tabindex: '0', role: 'group', 'aria-label': 'Table' });
}
