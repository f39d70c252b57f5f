import { expect, test } from 'vitest';
import { all, cost, dollars, near, spent, total } from '../src/money';

const d = 1_000_000_000;

// As Money.String of the server writes it: the page and the command line say the same.
test('an amount has cents, or two digits that count, and is never too small', () => {
  expect([0, 1, 20_000, 2_100_000, 42_000_000, 420_000_000, 5 * d, 1234.567 * d, 0.1 * d, 99_999_999].map(dollars)).toEqual([
    '$0', '$0.000000001', '$0.00002', '$0.0021', '$0.042', '$0.42', '$5.00', '$1234.57', '$0.10', '$0.10',
  ]);
});

// f38
test('a sum says when there is more, and nothing when it cost nothing', () => {
  expect(spent(undefined)).toBe('');
  expect(spent({ amount: 0, at_least: false })).toBe('');
  expect(spent({ amount: 0.42 * d, at_least: false })).toBe('$0.42');
  expect(spent({ amount: 0.42 * d, at_least: true })).toBe('≥ $0.42');
  expect(spent({ amount: 0, at_least: true, unpriced: true })).toBe('price not known');
  expect(spent({ amount: 0, at_least: true })).toBe('cost not reported');
});

test('an attempt says what it cost, and how well that is known', () => {
  expect(cost(undefined)).toBe('not known yet');
  expect(cost({ amount: 0, kind: 'unknown' })).toBe('not known: the model has no price');
  expect(cost({ amount: 2_100_000, kind: 'estimated' })).toBe('≥ $0.0021, not reported');
  expect(cost({ amount: 2_100_000, kind: 'known' })).toBe('$0.0021');
  expect(cost({ amount: 0, kind: 'known' })).toBe('none');
});

test('sums add up', () => {
  expect(total([{ amount: 1, kind: 'known' }, { amount: 2, kind: 'estimated' }])).toEqual({ amount: 3, at_least: true, unpriced: false });
  expect(total([{ amount: 1, kind: 'known' }])).toEqual({ amount: 1, at_least: false, unpriced: false });
  expect(all([{ amount: 1, at_least: false }, undefined, { amount: 2, at_least: true }])).toEqual({ amount: 3, at_least: true, unpriced: false });
});

test('from four fifths of a limit on, the figure says so; what is set aside counts', () => {
  expect(near({ amount: 3.99 * d, at_least: false }, 5 * d)).toBe('');
  expect(near({ amount: 4 * d, at_least: false }, 5 * d)).toBe('80 % of $5.00');
  expect(near({ amount: 3 * d, reserved: 1.5 * d, at_least: false }, 5 * d)).toBe('90 % of $5.00');
  expect(near({ amount: 9 * d, at_least: false }, undefined)).toBe('');
});
