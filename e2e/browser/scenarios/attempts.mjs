// The attempts at a reply, which have an address of their own, and every screen at 400 %.
import assert from 'node:assert/strict';
import { accessible, button, complete, composer, drawer, refused, say, script, tokens, until } from '../lib.mjs';
import { idOf } from '../stage.mjs';

const text = { first: tokens('first', 10), second: tokens('second', 10) };
const no = refused('overloaded');

export const config = "models: {'up/*': {input: 1000, output: 5000, max_output: 1000}}\nrecovery: {tier1: {attempts: 2, base: 5ms}, tier2: {base: 500ms}}";
export const scripts = [
  script('late-twice', '1ms', no, no, [say(text.first)], [say(text.second)]),
  script('wide', '1ms', [say(`# ${'Anticonstitutionnellement'.repeat(3)}\n\n| a | b |\n|---|---|\n| ${'x'.repeat(200)} | y |\n\n\`\`\`go\n${'x := 1; '.repeat(40)}\n\`\`\`\n\n${'w'.repeat(300)}`)]),
];

const phone = { width: 390, height: 844 };
const cards = (page) => drawer(page).getByRole('listitem');
const closed = (page) => drawer(page).waitFor({ state: 'detached' });
const total = async (page) => (await drawer(page).getByText(/^All attempts cost/).innerText()).replace('All attempts cost ', '');
const versions = (page) => page.getByRole('dialog').getByRole('listitem');

export const scenarios = {
  async 'the attempts at a reply have an address: Back, a reload and a link keep to it'(on) {
    const { page } = on;
    await on.ask('late-twice', 'Where are the attempts?');
    await complete(page);
    const session = page.url();
    const { last_run: run } = await on.session();
    const there = new RegExp(`/s/${idOf(page)}/attempts/${run.message_id}$`);
    const count = async (n) => {
      await cards(page).nth(n - 1).waitFor();
      assert.equal(await cards(page).count(), n);
    };
    await button(page, 'Attempts').click();
    await count(3); // of both runs
    await drawer(page).getByText('timed retry · late-twice').waitFor();
    assert.match(page.url(), there);
    await page.reload();
    await count(3);
    await page.goBack();
    await closed(page);
    assert.equal(page.url(), session);
    await page.goForward();
    await count(3);
    await button(page, 'Close attempts').click();
    await closed(page);
    assert.equal(page.url(), session);
    const link = `${session}/attempts/${run.message_id}`;
    await page.goto('about:blank');
    await page.goto(link);
    await count(3);
    await page.keyboard.press('Escape');
    await closed(page);
    assert.equal(page.url(), session, 'closing what a link opened stays in the session');
    await page.setViewportSize(phone);
    await page.goto(link);
    await count(3);
    assert.deepEqual(await drawer(page).boundingBox(), { x: 0, y: 0, ...phone }, 'a sheet');
    await accessible(page, 'the attempts by a link');
    await page.goto(`${session}/attempts/msg_none`);
    await drawer(page).getByText('There is no such message.').waitFor();
  },

  async 'f38: the figure of every version is the sum of its attempts'(on) {
    const { page } = on;
    await on.ask('late-twice', 'What does each cost?');
    await complete(page);
    const figure = await page.locator('.actions .cost').innerText();
    await button(page, 'Attempts').click();
    await cards(page).nth(2).waitFor();
    assert.equal(await total(page), figure);
    await page.keyboard.press('Escape');
    await button(page, 'Regenerate').click();
    await until(page, 'second-009');
    await complete(page);
    await button(page, 'Version 2 of 2').click();
    await versions(page).nth(1).waitFor();
    const listed = await versions(page).allInnerTexts();
    assert.ok(listed[0].includes(figure), listed[0]);
    await versions(page).first().getByRole('button', { name: 'Show version 1' }).click();
    assert.equal(await page.locator('.actions .cost').innerText(), figure);
    await button(page, 'Attempts').click();
    await drawer(page).getByText('Of version 1, superseded').waitFor();
    await cards(page).nth(2).waitFor();
    assert.equal(await total(page), figure);
    assert.match(page.url(), /\/attempts\/msg_\w+\?v=1&m=msg_/);
    await page.keyboard.press('Escape');
    await button(page, 'Back to current').click();
    await button(page, 'Attempts').click();
    await drawer(page).getByText('regenerate · late-twice').waitFor();
    assert.equal(await cards(page).count(), 1);
    assert.ok(listed[1].includes(await total(page)), listed[1]);
  },

  async 'f41: every other screen at 400 %, with and without forced colours'(on) {
    const small = { viewport: { width: 320, height: 256 }, deviceScaleFactor: 4 };
    for (const options of [{ forcedColors: 'active' }, { reducedMotion: 'reduce' }]) {
      const page = await (await on.visitor({ ...small, ...options })).newPage();
      const look = async (state) => {
        await accessible(page, state, [320]);
        // Only code, tables and the text that is compared may be wider than their place.
        const wide = await page.evaluate(() =>
          [...document.querySelectorAll('body *')]
            .filter((e) => e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX) && !e.matches('pre, .table') && !e.querySelector(':scope > table') && !e.closest('pre'))
            .map((e) => `${e.tagName}.${e.className}`),
        );
        assert.deepEqual(wide, [], `${state} scrolls both ways`);
      };
      await on.ask('wide', `Wide ${Object.keys(options)}`, page);
      await complete(page);
      await look('a wide reply');
      await on.ask('late-twice', `Small versions ${Object.keys(options)}`, page);
      await complete(page);
      await button(page, 'Regenerate').click();
      await until(page, 'second-009');
      await complete(page);
      await button(page, 'Attempts').click();
      await cards(page).first().waitFor();
      await look('the attempts');
      await page.keyboard.press('Escape');
      await button(page, 'Version 2 of 2').click();
      await look('the versions');
      await page.getByRole('button', { name: 'Compare version 1 with current' }).click();
      await look('the comparison');
      await page.keyboard.press('Escape');
      await composer(page).fill('And more');
      await composer(page).press('Enter');
      await page.getByRole('article', { name: /^You/ }).nth(1).waitFor();
      await complete(page);
      await button(page, 'Regenerate').first().click();
      await page.getByRole('dialog').waitFor();
      await look('the question before a regenerate');
      await page.keyboard.press('Escape');
      for (const path of ['/new', '/waiting', '/archived', '/settings']) {
        await page.goto(on.base + path);
        await page.getByRole('heading').first().waitFor();
        await look(path);
      }
    }
  },
};
