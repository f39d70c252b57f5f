import { beforeEach, expect, test } from 'vitest';
import { markRead, readTo } from '../src/read';

beforeEach(() => localStorage.clear());

test('what was read stays read', () => {
  expect(readTo('ses_1')).toBeNull();
  markRead('ses_1', 4);
  markRead('ses_1', 2);
  markRead('ses_2', 1);
  expect([readTo('ses_1'), readTo('ses_2')]).toEqual([4, 1]);
});

test('sessions that were not read for long are forgotten', () => {
  for (let i = 0; i < 301; i++) markRead(`ses_${i}`, 1);
  expect([readTo('ses_0'), readTo('ses_1'), readTo('ses_300')]).toEqual([null, 1, 1]);
});

test.each(['no json', '{}', '[1,null,["x"]]'])('what is stored as %s is nothing', (stored) => {
  localStorage.setItem('reprise.read', stored);
  expect(readTo('x')).toBeNull();
  markRead('x', 1);
  expect(readTo('x')).toBe(1);
});
