// What a failure leaves behind, and what is not repeated by itself.
import assert from 'node:assert/strict';
import { broken, button, card, complete, divider, drawer, drawn, eager, follows, refused, reply, say, script, stall, stop, tokens, until } from '../lib.mjs';
import { at } from '../stage.mjs';

const text = { recovers: tokens('recovers', 40), broken: tokens('broken', 30), lost: tokens('lost', 30) };

export const config = eager;
export const scripts = [
  script('busy', '1ms', refused('rate_limited', { wait: '25s' })),
  script('recovers', '10ms', refused('unavailable', { status: 503 }), [say(text.recovers)]),
  script('broken', '1ms', [say(text.broken), broken], [say('never')]),
  script('lost', '1ms', [say(text.lost), stall]),
];

export const scenarios = {
  async 'f8: a wait before the next attempt is shown and can be stopped'(on) {
    const { page } = on;
    await on.ask('busy', 'Wait');
    await page.getByRole('timer').waitFor();
    await page.keyboard.press('Escape');
    await divider(page).filter({ hasText: 'nothing had been shown' }).waitFor();
    assert.equal(await page.getByRole('timer').count(), 0);
    assert.equal(await on.requests(), 1);
    assert.equal((await on.session()).last_run.state, 'cancelled');
  },

  async '503, then success: one reply and no trace of the failure'(on) {
    const { page } = on;
    await on.ask('recovers', 'Recover');
    await follows(page, text.recovers);
    await complete(page);
    assert.equal(await drawn(page), text.recovers);
    assert.equal(await page.getByRole('article', { name: /^Reply/ }).count(), 1);
    assert.equal(await divider(page).count(), 0);
    assert.equal(await card(page).count(), 0);
    assert.doesNotMatch(await page.getByRole('log').innerText(), /503|unavailable|overloaded|retry/i);
    assert.equal(await on.requests(), 2);
    await button(page, 'Attempts').click();
    await drawer(page).getByText('discarded before anything was shown').waitFor();
    assert.equal(await drawer(page).getByRole('listitem').count(), 2);
    await page.keyboard.press('Escape');
    await drawer(page).waitFor({ state: 'detached' });
  },

  async 'f14: text, then a failure: kept, with both answers, and never repeated'(on) {
    const { page } = on;
    await on.ask('broken', 'Break');
    await card(page).waitFor();
    const check = async (when) => {
      assert.equal(await drawn(page), text.broken, when);
      assert.match(await divider(page).innerText(), /^Interrupted/, when);
      const verdicts = (await card(page).locator('.verdicts').innerText()).replace(/\s+/g, ' ');
      assert.match(verdicts, /Worth retrying: yes/, when);
      assert.match(verdicts, /Safe to repeat: no, text was shown/, when);
      await card(page).getByText('Not repeated by itself').waitFor();
    };
    await check('at first');
    assert.equal(await stop(page).count(), 0);
    await page.reload();
    await card(page).waitFor();
    await check('after a reload');
    assert.equal(await on.requests(), 1);
  },

  'f25: the server is killed in the middle of the text: the page comes back and keeps it': at({ own: true }, async (on) => {
    const { page } = on;
    await on.ask('lost', 'Restart');
    await until(page, 'lost-029');
    await follows(page, text.lost);
    await on.kill();
    await on.start();
    await divider(page).filter({ hasText: 'the server was restarted' }).waitFor();
    await card(page).getByText('text was shown').waitFor();
    assert.equal(await drawn(page), text.lost);
    assert.equal(await stop(page).count(), 0);
    await page.reload();
    await divider(page).filter({ hasText: 'the server was restarted' }).waitFor();
    assert.equal(await drawn(page), text.lost, 'after a reload');
    assert.equal(await on.requests(), 1);
  }),
};
