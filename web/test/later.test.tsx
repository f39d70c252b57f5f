import { act, render } from '@testing-library/preact';
import { expect, test } from 'vitest';
import { drawDocument } from '../src/markdown/stream';
import { Later, prose } from '../src/ui/later';
import { Markdown } from '../src/ui/parts';

test('text shows as it is written until what draws it is there, and then as the whole document', async () => {
  const text = '# Head\n\nSome **bold** words\non two lines\n\n- one\n- two\n';
  const { container, rerender } = render(<Markdown text={text.slice(0, 30)} />);
  rerender(<Markdown text={text} />);
  const root = container.querySelector('.prose')!;
  expect([...root.children].map((p) => `${p.tagName} ${p.textContent}`)).toEqual(['P # Head', 'P Some **bold** words\non two lines', 'P - one\n- two\n']);
  await act(async () => void (await prose.get()));
  const whole = document.createElement('div');
  drawDocument(whole, text);
  expect(root.innerHTML).toBe(whole.innerHTML);
});

test('a part that could not be loaded is asked for again', async () => {
  let asked = 0;
  const part = new Later(async () => {
    if (++asked === 1) throw new Error('no connection');
    return 'there';
  });
  await expect(part.get()).rejects.toThrow();
  expect(part.module).toBeNull();
  expect(await Promise.all([part.get(), part.get()])).toEqual(['there', 'there']);
  expect([asked, part.module]).toEqual([2, 'there']);
});
