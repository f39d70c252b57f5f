// Who uses the page in other ways: by keyboard alone, by ear, with other colours and sizes, on
// a phone, in many tabs.
import assert from 'node:assert/strict';
import { accessible, after, bar, barSays, broken, button, card, complete, composer, divider, drawer, reply, refused, said, say, script, sessions, stall, stop, tokens, until } from '../lib.mjs';
import { at } from '../stage.mjs';

const no = refused('overloaded');
const text = { late: tokens('late', 20), part: tokens('part', 20) };

export const config = after('60s');
export const models = ['overloaded', 'rate-limited-3000s'];
export const scripts = [
  script('late', '5ms', no, no, [say(text.late)]),
  script('two-late', '5ms', no, no, no, no, [say(text.late)]),
  script('part-stall', '1ms', [say(text.part), stall]),
  script('part-broken', '1ms', [say(text.part), broken]),
];

const armed = (page) => barSays(page, 'Trying again in');

/** What has the focus: its words, or "body" for nothing. */
const focused = (page) =>
  page.evaluate(() => {
    const e = document.activeElement;
    return e === document.body ? 'body' : e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.id || e.textContent;
  });

/** Goes on with the Tab key to what has these words. */
async function tabTo(page, words) {
  const passed = [];
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab');
    passed.push(await focused(page));
    if (passed.at(-1) === words) return;
  }
  assert.fail(`Tab does not reach "${words}", only ${passed.join(', ')}`);
}

export const scenarios = {
  async 'f39: everything by keyboard, and the focus is never lost'(on) {
    const { page } = on;
    await on.ask('two-late', 'By keyboard');
    await armed(page);
    await tabTo(page, 'Try now');
    await page.keyboard.press('Tab');
    assert.equal(await focused(page), 'Cancel retry');
    await page.keyboard.press('Enter');
    await barSays(page, 'Retry cancelled');
    assert.equal(await focused(page), 'Dismiss', 'the same button has the focus');
    await page.keyboard.press('Shift+Tab');
    assert.equal(await focused(page), 'Retry');
    await page.keyboard.press('Enter');
    await armed(page); // the next two are refused as well
    assert.notEqual(await focused(page), 'body', 'when the bar has changed');
    await page.keyboard.press('a');
    await drawer(page).waitFor();
    assert.equal(await focused(page), 'drawer-title');
    await page.keyboard.press('Escape');
    await drawer(page).waitFor({ state: 'detached' });
    assert.notEqual(await focused(page), 'body', 'when the drawer has closed');
    await page.keyboard.press('t');
    await complete(page);
    assert.notEqual(await focused(page), 'body', 'when the reply is whole');
    await on.ask('overloaded', 'Cancel by keyboard');
    await armed(page);
    await page.keyboard.press('Escape');
    await barSays(page, 'Retry cancelled');
    await on.ask('part-stall', 'Stop by keyboard');
    await until(page, 'part-019');
    await tabTo(page, 'Stop');
    await page.keyboard.press('Space');
    await divider(page).filter({ hasText: 'you stopped it' }).waitFor();
    await stop(page).waitFor({ state: 'detached' });
    await tabTo(page, 'composer');
  },

  'f40: what is said aloud over an arming, a minute, a start and an end': at({ waits: true }, async (on) => {
    const { page } = on;
    await page.addInitScript(() => {
      globalThis.heard = [];
      let last = '';
      const listen = () => {
        for (const node of document.querySelectorAll('[role=status], [role=alert], [aria-live]:not([aria-live=off])')) {
          const words = node.textContent.trim();
          if (words && words !== last) heard.push((last = words));
        }
      };
      new MutationObserver(listen).observe(document, { subtree: true, childList: true, characterData: true });
    });
    const { id } = await on.api('POST', '/sessions', { model: 'up/late' });
    await page.goto(`${on.base}/s/${id}`);
    await page.getByText('Nothing has been said yet').waitFor();
    await composer(page).fill('Aloud');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => heard.some((h) => /^Reply complete/.test(h)), null, { timeout: 90_000 });
    const heard = await page.evaluate(() => heard);
    const failures = heard.findIndex((h) => /Trying again in \d+ seconds\. Press Escape to cancel\.$/.test(h));
    assert.ok(failures >= 0, heard.join('\n'));
    // Before it: the run and its fast retry; each at most once.
    const before = heard.slice(0, failures).filter((h) => !/^(Queued|Replying|Attempt 1 failed: overloaded\. Trying again .*)$/.test(h));
    assert.deepEqual(before, [], heard.join('\n'));
    const rest = heard.slice(failures + 1).filter((h) => h !== 'Starting attempt 2'); // a start may be quicker than a word
    assert.deepEqual(rest, ['Trying again in 30 seconds.', 'Trying again in 10 seconds.', 'Replying', 'Reply complete, 1 paragraph']);
  }),

  async 'f41: forced colours, 320 px, which is 400 % of 1280, and reduced motion'(on) {
    for (const options of [{ forcedColors: 'active' }, { forcedColors: 'none', reducedMotion: 'reduce' }]) {
      const page = await (await on.visitor({ ...options, viewport: { width: 320, height: 256 } })).newPage();
      for (const [model, reach] of [['overloaded', armed], ['part-broken', (p) => card(p).waitFor()], ['part-stall', (p) => until(p, 'part-019')]]) {
        await on.ask(model, `Small ${options.forcedColors}`, page);
        await reach(page);
        await accessible(page, `${model}, forced colours ${options.forcedColors}`, [320]);
        if (model === 'overloaded') assert.match(await bar(page).innerText(), /overloaded\. Trying again in[\s\S]*Try now[\s\S]*Cancel retry/);
        const moves = await page.evaluate(() =>
          [...document.querySelectorAll('*')].filter((e) => getComputedStyle(e).scrollBehavior === 'smooth' || parseFloat(getComputedStyle(e).transitionDuration) > 0.05).map((e) => e.className),
        );
        if (options.reducedMotion) assert.deepEqual(moves, []);
      }
      await page.goto(on.base);
      const list = sessions(page);
      await list.getByRole('link', { name: /Small.*retry in/s }).first().waitFor();
      await list.getByRole('link', { name: /Small.*running/s }).first().waitFor();
      await accessible(page, 'list', [320]);
    }
  },

  'f42: on a phone': at({ context: { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 3 } }, async (on) => {
    const { page } = on;
    await page.goto(`${on.base}/new`);
    await page.getByRole('combobox', { name: 'Model' }).selectOption('up/late');
    await composer(page).tap();
    await composer(page).pressSequentially('One');
    await page.keyboard.press('Enter');
    await composer(page).pressSequentially('two');
    assert.equal(await composer(page).inputValue(), 'One\ntwo', 'Enter does not break the line');
    await button(page, 'Send').tap();
    await armed(page);
    const box = async (l) => l.boundingBox();
    const words = await box(bar(page).locator('.retry-text'));
    for (const name of ['Try now', 'Cancel retry']) {
      const b = await box(button(page, name));
      assert.ok(b.height >= 44 && b.width >= 44, `${name} is ${b.width} × ${b.height}`);
      assert.ok(b.y >= words.y + words.height, `${name} is beside the text`);
    }
    // The keyboard leaves the page this much.
    await page.setViewportSize({ width: 390, height: 480 });
    const [wait, write] = [await box(bar(page)), await box(composer(page))];
    assert.ok(wait.y >= 0 && wait.y + wait.height <= write.y && write.y + write.height <= 480, 'the bar is not above the composer, or not on the screen');
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole('button', { name: 'Attempts' }).first().tap();
    const sheet = await box(drawer(page));
    assert.deepEqual([sheet.x, sheet.width], [0, 390]);
    assert.ok(sheet.height >= 800, `the sheet is ${sheet.height} high`);
    await button(page, 'Close attempts').tap();
    await button(page, 'Try now').tap();
    await complete(page);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  }),

  'f30: eight tabs on plain HTTP, of which two are looked at': at({ waits: true }, async (on) => {
    const { page } = on;
    await on.ask('rate-limited-3000s', 'In every tab');
    await barSays(page, 'Retry after');
    const url = page.url();
    const open = async (seen) => {
      const tab = await on.context.newPage();
      await tab.addInitScript((seen) => {
        globalThis.seen = seen;
        Object.defineProperty(document, 'visibilityState', { get: () => globalThis.seen });
        Object.defineProperty(document, 'hidden', { get: () => globalThis.seen === 'hidden' });
      }, seen);
      await tab.goto(url, { waitUntil: 'commit', timeout: 60_000 });
      return tab;
    };
    const hidden = await Promise.all(Array.from({ length: 6 }, () => open('hidden')));
    const other = await open('visible');
    await Promise.all([...hidden, other].map((t) => bar(t).filter({ hasText: 'Retry after' }).waitFor({ timeout: 60_000 })));
    const clicked = button(other, 'Cancel retry').click();
    const took = await Promise.all([page, other].map(async (t) => {
      await clicked;
      const began = Date.now();
      await barSays(t, 'Retry cancelled');
      return Date.now() - began;
    }));
    assert.ok(Math.max(...took) < 1_000, `it took ${took} ms`);
    for (const tab of hidden) {
      await tab.evaluate(() => ((globalThis.seen = 'visible'), document.dispatchEvent(new Event('visibilitychange'))));
      await barSays(tab, 'Retry cancelled');
      await tab.evaluate(() => ((globalThis.seen = 'hidden'), document.dispatchEvent(new Event('visibilitychange'))));
      await tab.close();
    }
    assert.equal((await on.session()).schedule.state, 'cancelled');
    assert.equal(await on.requests(), 1);
  }),
};
