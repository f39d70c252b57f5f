import { beforeEach, expect, test, vi } from 'vitest';

beforeEach(() => {
  localStorage.clear();
  vi.resetModules();
});

const fresh = () => import('../src/device');

test('what is set is kept on the device and told to who listens', async () => {
  const a = await fresh();
  const told: string[] = [];
  const stop = a.onDevice(() => told.push(a.device().theme));
  a.setDevice({ theme: 'dark', letters: false });
  stop();
  a.setDevice({ theme: 'light' });
  expect(told).toEqual(['dark']);
  vi.resetModules();
  expect((await fresh()).device()).toMatchObject({ theme: 'light', letters: false, countdown: true });
});

test('a change in another tab arrives', async () => {
  const { device, onDevice } = await fresh();
  const told = vi.fn();
  onDevice(told);
  localStorage.setItem('reprise.device', '{"clock":"24"}');
  dispatchEvent(Object.assign(new Event('storage'), { key: 'reprise.device' }));
  expect(told).toHaveBeenCalledOnce();
  expect(device().clock).toBe('24');
});

test.each(['no json', 'null', '[]', '7', '{"theme":"green","letters":"no","enter":1,"unknown":true}'])('what is stored as %s changes nothing', async (stored) => {
  const { device } = await fresh();
  const defaults = device();
  localStorage.setItem('reprise.device', stored);
  vi.resetModules();
  expect((await fresh()).device()).toEqual(defaults);
});
