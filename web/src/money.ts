import type { Cost, Spend } from './types';

// Money in words. Amounts are billionths of a US dollar. Pure.

const dollar = 1_000_000_000;

/** An amount for a person: cents from ten of them on, and below it two digits that count, rounded up so that no cost looks like none. */
export function dollars(amount: number): string {
  let unit = dollar / 100;
  while (amount > 0 && amount < unit * 10 && unit > 1) unit /= 10;
  const rounded = Math.ceil(amount / unit) * unit;
  if (rounded === 0) return '$0';
  const [whole, part = ''] = (rounded / dollar).toFixed(9).replace(/0+$/, '').split('.');
  return `$${whole}.${part.padEnd(2, '0')}`;
}

/** A sum; empty: it cost nothing. "≥": there is more that nobody counted. */
export function spent(s: Spend | undefined): string {
  if (!s || (s.amount === 0 && !s.at_least)) return '';
  if (s.amount === 0) return s.unpriced ? 'price not known' : 'cost not reported';
  return `${s.at_least ? '≥ ' : ''}${dollars(s.amount)}`;
}

/** What an attempt cost, and how well that is known. */
export function cost(c: Cost | undefined): string {
  switch (c?.kind) {
    case undefined:
      return 'not known yet';
    case 'unknown':
      return 'not known: the model has no price';
    case 'estimated':
      return c!.amount > 0 ? `≥ ${dollars(c!.amount)}, not reported` : 'not reported';
  }
  return c!.amount > 0 ? dollars(c!.amount) : 'none';
}

/** Adds costs up. */
export const total = (costs: (Cost | undefined)[]): Spend => ({
  amount: costs.reduce((sum, c) => sum + (c?.amount ?? 0), 0),
  at_least: costs.some((c) => c?.kind !== 'known'),
  unpriced: costs.some((c) => c?.kind === 'unknown'),
});

/** Adds sums up. */
export const all = (spends: (Spend | undefined)[]): Spend => ({
  amount: spends.reduce((sum, s) => sum + (s?.amount ?? 0), 0),
  at_least: spends.some((s) => s?.at_least),
  unpriced: spends.some((s) => s?.unpriced),
});

/** How much of a limit is used, once that is worth a word; empty: it is not, or there is none. What is set aside counts. */
export function near(s: Spend, limit: number | undefined): string {
  if (!limit) return '';
  const used = Math.floor(((s.amount + (s.reserved ?? 0)) / limit) * 100);
  return used >= 80 ? `${used} % of ${dollars(limit)}` : '';
}
