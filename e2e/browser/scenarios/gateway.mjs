// What other programs send through the gateway, and what the operator sees and does about it.
import assert from 'node:assert/strict';
import { accessible, broken, button, say, script } from '../lib.mjs';

export const config = 'recovery: {tier1: {attempts: 2, base: 5ms}}';
export const scripts = [
  script('whole-call', '1ms', [say('All of it.')]),
  script('broken-call', '1ms', [say('Some of it.'), broken]),
  script('slow-call', '1ms', [say('Begun.'), { do: 'stall' }]),
  { name: 'retried-call', pause: '1ms', scenes: [[[{ do: 'status', fault: { kind: 'overloaded' } }], [say('After all.')]]] },
];

const call = (on, key, model) =>
  fetch(`${on.base}/v1/responses`, { method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: JSON.stringify({ model: `up/${model}`, input: 'Hello', stream: true }) });

export const scenarios = {
  async 'the gateway: a key is made, calls and what was decided are shown, and a broken one is let through'(on) {
    const { page } = on;
    await page.goto(`${on.base}/gateway`);
    await page.getByRole('textbox', { name: 'For' }).fill('editor');
    await button(page, 'Make a key').click();
    const key = await page.locator('code', { hasText: /^rpk_/ }).textContent();
    for (const model of ['whole-call', 'retried-call', 'broken-call']) await (await call(on, key, model)).text();
    const calls = page.getByRole('region', { name: 'Calls' });
    const one = (model) => calls.locator('details').filter({ hasText: model });
    await one('whole-call').getByText('whole', { exact: true }).waitFor();
    await one('broken-call').getByText('interrupted', { exact: true }).waitFor();
    await one('retried-call').locator('summary').click();
    await one('retried-call').getByText(/Safe to repeat/).first().waitFor();
    assert.equal(await one('retried-call').locator('.attempt').count(), 2);
    assert.equal((await call(on, key, 'broken-call')).status, 400, 'what broke was repeated');
    const slow = await call(on, key, 'slow-call');
    await one('slow-call').getByText('going on', { exact: true }).waitFor();
    await accessible(page, 'the gateway');
    await slow.body.cancel();
    await one('slow-call').getByText('cancelled', { exact: true }).waitFor();
    await page.getByRole('button', { name: /^Allow: .*broken-call/ }).click();
    await page.getByRole('region', { name: 'Not repeated' }).getByText('None.').waitFor();
    assert.equal((await call(on, key, 'broken-call')).status, 200);
    await page.getByRole('button', { name: 'Revoke: editor' }).click();
    await page.getByRole('button', { name: 'Revoke: editor' }).waitFor({ state: 'detached' });
    assert.equal((await call(on, key, 'whole-call')).status, 401);
  },
};
