import { afterEach, expect, test } from 'vitest';
import { sentences } from '../src/announce';
import { setDevice } from '../src/device';
import { later, nextAt, retryBar } from '../src/retry';
import { inWords, milliseconds, origin, sequence } from '../src/settings';
import type { Setting } from '../src/types';
import { clockTime, waitWords } from '../src/words';
import { run, schedule } from './make';

afterEach(() => setDevice({ clock: 'auto', countdown: true }));

test('durations are read as the configuration writes them', () => {
  expect(['2s', '300s', '1h30m', '500ms', '0', '1.5h', '1m 30s'].map(milliseconds)).toEqual([2000, 300_000, 5_400_000, 500, 0, 5_400_000, 90_000]);
  expect(['', 'soon', '5', '-1s', '1d', 's'].map(milliseconds)).toEqual([null, null, null, null, null, null]);
  expect(['300s', '1h30m', '90s', '500ms', '0s', 'soon'].map(inWords)).toEqual(['5 min', '1 h 30 min', '1 min 30 s', '500 ms', 'none', 'soon']);
});

// K-118
test('the waits are spelled out', () => {
  expect(sequence('2s', '10s')).toBe('2 s, 4 s, 8 s, 10 s, and so on.');
  expect(sequence('2s', '300s')).toBe('2 s, 4 s, 8 s, 16 s, 32 s, 1 min 4 s … up to 5 min.');
  expect(sequence('5s', '2s')).toBe('');
});

test('a setting says where it is from and what it would be', () => {
  const s: Setting = { key: 'k', value: '4s', configured: '2s', from: 'file', set: true, fixed: false };
  expect(origin(s, inWords)).toBe('Set here; the file says 2 s.');
  expect(origin({ ...s, from: 'default' }, inWords)).toBe('Set here; the default is 2 s.');
  expect(origin({ ...s, set: false }, inWords)).toBe('From the configuration file.');
  expect(origin({ ...s, set: false, from: 'default' }, inWords)).toBe('');
  expect(origin({ ...s, from: 'flag', fixed: true }, inWords)).toBe('Fixed by a flag that the server was started with.');
});

test('a retry can only be put off', () => {
  const now = 1_000_000;
  const texts = (o: object) => later(schedule(o), now).map((l) => l.text);
  expect(texts({ next_at: now + 8000 })).toEqual(['In 5 min', 'In 30 min', 'In 1 h']);
  expect(texts({ state: 'scheduled', next_at: now + 29 * 60_000 })).toEqual(['In 30 min', 'In 1 h']);
  expect(texts({ state: 'held', next_at: now - 8000 })).toEqual(['In 5 min', 'In 30 min', 'In 1 h']);
  expect(texts({ state: 'cancelled' })).toEqual([]);
});

test('a clock time is the next one', () => {
  const now = new Date(2026, 2, 1, 12, 30).getTime();
  expect(nextAt('12:31', now)).toBe(new Date(2026, 2, 1, 12, 31).getTime());
  expect(nextAt('12:30', now)).toBe(new Date(2026, 2, 2, 12, 30).getTime());
  expect(nextAt('00:05', now)).toBe(new Date(2026, 2, 2, 0, 5).getTime());
  expect(nextAt('', now)).toBe(0);
});

test('each hold says what ends it', () => {
  const text = (hold_reason: string) => retryBar(schedule({ state: 'held', hold_reason }), run(), false, 0)!.text;
  expect(text('nobody_watching')).toBe('Ready. Waiting for you to look.');
  expect(text('asks')).toBe('Ready. It starts when you try now.');
  expect(text('offline')).toBe('No network on the server. Waiting.');
});

test('times in place of countdowns, and the clock of this device', () => {
  const at = new Date(2026, 2, 1, 14, 2, 8).getTime();
  setDevice({ countdown: false, clock: '24' });
  const bar = retryBar(schedule({ next_at: at }), run(), false, at - 8000)!;
  expect(bar).toMatchObject({ state: 'armed', timer: '', text: 'Overloaded. Trying again at 14:02:08.' });
  expect(waitWords(schedule({ next_at: at }), at - 8000)).toBe('retry at 14:02:08');
  expect(clockTime(at, at)).toBe('14:02');
  setDevice({ clock: '12' });
  expect(clockTime(at, at)).toMatch(/^0?2:02\sPM$/);
});

test('what is spoken of a reply is whole sentences, each once', () => {
  const first = sentences('One is here. Two is here. Three is', 0);
  expect(first.said).toBe('One is here. Two is here.');
  expect(sentences('One is here. Two is here. Three is', first.to)).toEqual({ said: '', to: first.to });
  expect(sentences('One is here. Two is here. Three is here.\n', first.to).said).toBe('Three is here.');
  const long = sentences(`${'A sentence of many. '.repeat(40)}The end. `, 0);
  expect(long.said.length).toBeLessThanOrEqual(300);
  expect(long.said.endsWith('The end.')).toBe(true);
  expect(sentences('## Head\n**Bold** text. ', 0).said).toBe('Head Bold text.');
});
