// The versions of a reply, and the question before another one.
import assert from 'node:assert/strict';
import { accessible, broken, button, complete, composer, drawn, eager, reply, said, say, script, stall, stop, tokens, until } from '../lib.mjs';
import { idOf } from '../stage.mjs';

const text = { first: tokens('first', 10), second: tokens('second', 10), third: tokens('third', 10) };
const plan = (time, last) => `# A plan\n\nThe release goes out on **${time}**, after the tests.\n\n- build\n- ${last}\n\nNothing else changes.`;

export const config = eager;
export const scripts = [
  script('twice', '1ms', [say(text.first)], [say(text.second)]),
  script('thrice', '1ms', [say(text.first)], [say(text.second), broken], [say(text.third)]),
  script('plan', '1ms', [say(plan('Monday', 'publish'))], [say(plan('Tuesday', 'announce'))]),
  script('halts', '1ms', [say(text.second), stall]),
];

const versionBar = (page, n) => page.getByRole('region', { name: `Version ${n}`, exact: true });
const dialog = (page) => page.getByRole('dialog');
const send = async (page, words) => {
  await composer(page).fill(words);
  await composer(page).press('Enter');
};
const again = async (page, start) => {
  await button(page, 'Regenerate').last().click();
  await until(page, `${start}-009`);
};

export const scenarios = {
  async 'f26, K-080: regenerate writes a new version and keeps the old one readable'(on) {
    const { page } = on;
    await on.ask('twice', 'Once more');
    await complete(page);
    assert.equal(await drawn(page), text.first);
    await again(page, 'second');
    await complete(page);
    assert.equal(await dialog(page).count(), 0);
    assert.equal(await drawn(page), text.second);
    assert.equal(await page.getByRole('article', { name: /^Reply/ }).count(), 1);
    assert.equal(await page.getByRole('article', { name: /^You/ }).count(), 1);
    await page.getByText('Superseded 1 message, kept readable.').waitFor();
    await button(page, 'Version 2 of 2').waitFor();
    const check = async () => {
      await versionBar(page, 1).filter({ hasText: /superseded \d\d:\d\d.* by regenerate · read only/ }).waitFor();
      assert.equal(await drawn(page), text.first);
      assert.equal(await button(page, 'Regenerate').count(), 0);
    };
    await button(page, 'Previous version').click();
    await check();
    await said(page).filter({ hasText: 'Version 1 of 2, superseded' }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Previous version', 'the focus is lost');
    await accessible(page, 'an older version');
    await page.reload();
    await check();
    assert.match(page.url(), /\?v=1/);
    await page.goto(`${on.base}/s/${idOf(page)}?v=1`);
    await check();
    await button(page, 'Back to current').click();
    await until(page, 'second-009');
    assert.doesNotMatch(page.url(), /\?/);
    assert.equal(await on.requests(), 2);
  },

  async 'a message from an older version goes to the current line'(on) {
    const { page } = on;
    await on.ask('twice', 'Two of them');
    await complete(page);
    await again(page, 'second');
    await complete(page);
    await button(page, 'Previous version').click();
    await versionBar(page, 1).waitFor();
    await send(page, 'Next');
    await page.getByRole('article', { name: /^You/ }).nth(1).waitFor();
    assert.equal(await versionBar(page, 1).count(), 0);
  },

  async 'the keys: [ and ] turn versions, j and k messages; the menu names each'(on) {
    const { page } = on;
    await on.ask('thrice', 'Three of them');
    await complete(page);
    await again(page, 'second');
    await page.getByRole('group', { name: 'What went wrong' }).waitFor();
    await button(page, 'Regenerate').click();
    await until(page, 'third-009');
    await complete(page);
    await page.getByRole('log').focus();
    await page.keyboard.press('[');
    await versionBar(page, 2).waitFor();
    await page.keyboard.press('[');
    await versionBar(page, 1).waitFor();
    await page.keyboard.press('[');
    await page.keyboard.press(']');
    await versionBar(page, 2).waitFor();
    assert.match(await reply(page).innerText(), /Interrupted/);
    await page.keyboard.press('k');
    assert.match(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), /^You/);
    await page.keyboard.press('j');
    assert.match(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), /^Reply, Version 2/);
    await button(page, 'Version 2 of 3').click();
    await dialog(page).waitFor();
    assert.deepEqual(
      (await dialog(page).getByRole('listitem').allInnerTexts()).map((t) => t.replace(/\s+/g, ' ').replace(/\d\d:\d\d( [AP]M)?/g, 'TIME')),
      [
        'Version 1 TIME · your message · thrice · completed · 99 characters · price not known Compare with current Show',
        'Version 2 TIME · regenerate · thrice · interrupted, the stream ended early · 109 characters · price not known Compare with current Shown',
        'Version 3 current TIME · regenerate · thrice · completed · 99 characters · price not known Show',
      ],
    );
    await accessible(page, 'the versions');
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Version 2 of 3', 'the focus has not come back');
    await page.keyboard.press('?');
    await dialog(page).getByRole('heading', { name: 'Keys' }).waitFor();
    await accessible(page, 'the keys');
    await dialog(page).getByRole('checkbox').uncheck();
    await page.keyboard.press('Escape');
    await page.getByRole('log').focus();
    await page.keyboard.press(']');
    await page.keyboard.press('?');
    assert.equal(await versionBar(page, 2).count(), 1);
    assert.equal(await dialog(page).count(), 0);
  },

  async 'two versions are compared word by word'(on) {
    const { page } = on;
    await on.ask('plan', 'What is the plan?');
    await complete(page);
    await button(page, 'Regenerate').click();
    await until(page, 'Tuesday');
    await complete(page);
    await button(page, 'Previous version').click();
    await button(page, 'Compare with current').click();
    await dialog(page).getByText('2 words gone, 2 words new.').waitFor();
    const columns = dialog(page).getByRole('table');
    assert.deepEqual(await columns.locator('del').allInnerTexts(), ['Monday', 'publish']);
    assert.deepEqual(await columns.locator('ins').allInnerTexts(), ['Tuesday', 'announce']);
    await accessible(page, 'compare', [1280]);
    await page.setViewportSize({ width: 390, height: 800 });
    await columns.waitFor({ state: 'detached' });
    await accessible(page, 'compare', [390]);
    await page.keyboard.press('Escape');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Compare with current');
  },

  async 'f27: a regenerate of an earlier message asks, counts and is brought up to date'(on) {
    const { page } = on;
    await on.ask('twice', 'The first');
    await complete(page);
    await page.getByRole('combobox', { name: 'Model' }).selectOption('up/halts');
    await send(page, 'The second');
    await until(page, 'second-009');
    await send(page, 'The third waits');
    await page.getByRole('region', { name: 'Queued messages' }).waitFor();
    await page.keyboard.press('Escape'); // the box is empty: it stops
    await reply(page).getByText('you stopped it').waitFor();
    const before = await on.messages();
    const ask = button(page, 'Regenerate').first();
    await page.getByRole('article', { name: /^Reply/ }).first().hover();
    await ask.click();
    const body = () => dialog(page).innerText();
    assert.match(await body(), /Regenerate from “The first”\?[\s\S]*Superseded and kept readable\s*2 replies · 1 later message of yours[\s\S]*Stays queued\s*1 message/);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Keep reply');
    await accessible(page, 'the question');
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
    assert.equal((await on.session()).state, 'idle');
    // The queue is emptied meanwhile, in another tab.
    await ask.click();
    await dialog(page).waitFor();
    const other = await on.tab(`/s/${idOf(page)}`);
    await button(other, 'Remove queued message 1').click();
    await dialog(page).getByText('The session has changed meanwhile.').waitFor();
    assert.doesNotMatch(await body(), /Stays queued/);
    await dialog(page).getByRole('button', { name: 'Regenerate' }).dblclick();
    await dialog(page).waitFor({ state: 'detached' });
    await page.getByText('Superseded 3 messages, kept readable.').waitFor();
    const after = await on.messages();
    assert.deepEqual(after[0], before[0], 'the row of the operator has changed');
    assert.equal(after.filter((m) => m.superseded_by).length, 3);
    await until(page, 'second-009');
    await stop(page).click();
    await reply(page).getByText('you stopped it').waitFor();
    await button(page, 'Previous version').click();
    await page.getByRole('region', { name: 'What followed this version' }).getByText('The second').waitFor();
    await accessible(page, 'an older line');
  },
};
