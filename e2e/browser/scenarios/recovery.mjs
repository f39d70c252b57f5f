// What is said of a failure that nothing repeats, and what helps.
import assert from 'node:assert/strict';
import { accessible, after, bar, barSays, button, card, complete, composer, refused, said, say, script, until } from '../lib.mjs';
import { idOf } from '../stage.mjs';

const long = Array.from({ length: 40 }, (_, i) => `Paragraph ${i} of it.`).join('\n\n');

export const config = after('60s');
export const models = ['ok-fast'];
export const scripts = [
  script('always-busy', '1ms', refused('overloaded')),
  script('refused-key', '1ms', refused('auth_failed')),
  script('too-odd', '1ms', refused('invalid_request')),
  script('long-winded', '1ms', [say(long)]),
];

const send = async (page, words) => {
  await composer(page).fill(words);
  await composer(page).press('Enter');
};

export const scenarios = {
  async 'f37: a new message ends the wait, says so, and one run starts'(on) {
    const { page } = on;
    await on.ask('always-busy', 'Wait for it');
    await barSays(page, /Trying again in/);
    await composer(page).fill('Never mind');
    await button(page, 'Send and cancel retry').click();
    await page.getByRole('article', { name: /^You/ }).nth(1).waitFor();
    await barSays(page, /Trying again in/);
    const line = card(page).first().getByText('Retry cancelled: you sent a new message.');
    await line.waitFor();
    await accessible(page, 'a wait that a message ended');
    await page.reload();
    await line.waitFor();
    const { runs } = await on.api('GET', `/sessions/${idOf(page)}/runs`);
    assert.deepEqual(runs.map((r) => [r.trigger, r.state, r.recovery.cancelled]), [['message', 'failed', 'message'], ['message', 'failed', undefined]]);
    assert.equal((await on.session()).schedule.run_id, runs[1].id, 'the old message would be answered again');
  },

  async 'another model ends the wait, and the bar says so'(on) {
    const { page } = on;
    await on.ask('always-busy', 'Try another model');
    await barSays(page, /Trying again in/);
    await page.getByRole('combobox', { name: 'Model' }).selectOption('up/ok-fast');
    await barSays(page, 'Retry cancelled: you chose another model. Nothing will start by itself.');
    await said(page).filter({ hasText: 'you chose another model' }).waitFor();
    await accessible(page, 'cancelled by another model');
    await button(page, 'Retry').click();
    await complete(page);
    assert.equal((await on.session()).last_run.model, 'up/ok-fast');
  },

  async 'f20: a refused key, and a request that is not valid: what helps is offered first'(on) {
    const { page } = on;
    await on.ask('refused-key', 'Hello');
    await card(page).getByText('the key must be put right first').waitFor();
    await accessible(page, 'key refused');
    await card(page).getByRole('button', { name: 'Change model' }).click();
    assert.equal(await page.evaluate(() => document.activeElement.tagName), 'SELECT');
    await page.keyboard.press('Escape');
    assert.equal(await on.requests(), 1);
    await page.getByRole('combobox', { name: 'Model' }).selectOption('up/ok-fast');
    await card(page).getByText('The next run asks ok-fast.').waitFor();
    await card(page).getByRole('button', { name: 'Retry' }).click();
    await complete(page);
    await on.ask('too-odd', 'The words of it');
    await card(page).getByRole('button', { name: 'Edit message' }).click();
    assert.equal(await composer(page).inputValue(), 'The words of it');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'composer');
    assert.equal(await on.requests(), 1);
    await accessible(page, 'request not valid');
  },

  async 'a session opens where reading goes on'(on) {
    const { page } = on;
    await on.ask('long-winded', 'Talk');
    await complete(page);
    await until(page, 'Paragraph 39');
    const path = new URL(page.url()).pathname;
    await page.goto(`${on.base}/new`);
    await on.api('POST', `/sessions/${/ses_\w+/.exec(path)[0]}/messages`, { parts: [{ kind: 'text', text: 'Go on' }] });
    for (;;) if ((await on.api('GET', `/sessions/${/ses_\w+/.exec(path)[0]}`)).last_run.state === 'succeeded') break;
    await page.goto(on.base + path);
    const second = page.getByRole('article', { name: /^You/ }).nth(1);
    await second.waitFor();
    const place = () => second.evaluate((e) => Math.round(e.getBoundingClientRect().top - e.closest('[role=log]').getBoundingClientRect().top));
    await page.waitForFunction(() => document.querySelectorAll('article.reply .prose p:not(.plain)').length >= 80);
    assert.ok((await place()) >= 0 && (await place()) < 40, `the new message is ${await place()} px below the top`);
    await button(page, 'New output').click();
    await page.waitForFunction(() => {
      const log = document.querySelector('[role=log]');
      return log.scrollHeight - log.scrollTop - log.clientHeight < 2;
    });
    assert.equal(await button(page, 'New output').count(), 0);
    // All of it is read now: it opens at its end.
    await page.goto(`${on.base}/new`);
    await page.goto(on.base + path);
    await until(page, 'Paragraph 39');
    await page.waitForFunction(() => {
      const log = document.querySelector('[role=log]');
      return log.scrollHeight - log.scrollTop - log.clientHeight < 2;
    });
  },
};
