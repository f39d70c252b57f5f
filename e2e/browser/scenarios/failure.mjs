// What a failure leaves behind, and what is not repeated by itself.
import assert from 'node:assert/strict';
import { barSays, broken, button, card, complete, composer, divider, drawer, drawn, eager, follows, refused, reply, say, script, stall, stop, tokens, until } from '../lib.mjs';
import { at } from '../stage.mjs';

const text = { recovers: tokens('recovers', 40), broken: tokens('broken', 30), lost: tokens('lost', 30) };

export const config = eager;
export const models = ['thinking-failed-fast', 'remote-tool-failed-fast', 'tool-then-failed-inside-text-fast', 'auth-failed', 'permission-denied', 'model-not-found',
  'spend-limit', 'quota', 'context-overflow', 'too-large', 'invalid', 'prompt-filtered', 'ok-fast'];
export const scripts = [
  script('broken-held', '1ms', [say(text.broken), broken], [say(text.recovers)]),
  script('prose', '1ms', refused('invalid_request', { message: 'Overloaded (503). Service temporarily unavailable, please try again in 1 second.' }), [say('never')]),
  script('refused-once', '1ms', refused('overloaded'), [say('never')]),
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

  async 'f15: thoughts, then a failure: the same'(on) {
    const { page } = on;
    await on.ask('thinking-failed-fast', 'Think');
    await never(on, 'thinking was shown', /thinking was already shown.*It is kept above/);
    await reply(page).getByText('Thought', { exact: true }).waitFor();
    assert.match(await divider(page).innerText(), /^Interrupted/);
    assert.equal(await on.requests(), 1);
  },

  async 'f16: a failure behind a tool of the provider is not repeated by itself, and says so'(on) {
    await on.ask('remote-tool-failed-fast', 'Search');
    await never(on, 'the provider ran a tool', /Not repeated by itself: the provider ran a tool/);
    assert.equal(await on.requests(), 1);
  },

  async 'f16: text, then a failure in the step behind a tool: the tool is shown, and nothing runs again'(on) {
    const { page } = on;
    await on.ask('tool-then-failed-inside-text-fast', 'What time is it?');
    await never(on, 'text was shown', /Not repeated by itself: clock had already run/);
    assert.match(await reply(page).locator('.call summary').innerText(), /clock[\s\S]*done/);
    assert.equal(await on.requests(), 2);
    const calls = (await on.messages()).flatMap((m) => m.parts.filter((p) => p.kind === 'tool_call'));
    assert.equal(calls.length, 1);
  },

  'f17: a break while everything is held back leaves no trace but in the drawer': at({ config: 'recovery: {tier1: {base: 5ms}, hold: whole}' }, async (on) => {
    const { page } = on;
    await on.ask('broken-held', 'Hold it');
    await follows(page, text.recovers);
    await complete(page);
    assert.equal(await drawn(page), text.recovers);
    assert.equal(await divider(page).count() + (await card(page).count()), 0);
    await button(page, 'Attempts').click();
    await drawer(page).getByText('discarded before anything was shown').waitFor();
    assert.deepEqual((await on.attempts()).map((a) => a.ok), [false, true]);
    assert.equal(await on.requests(), 2);
  }),

  'f18: no record of what an attempt did: not repeated by itself': at({ own: true, config: 'recovery: {tier1: {attempts: 1}, tier2: {base: 4s}}', waits: true }, async (on) => {
    const { page } = on;
    await on.ask('refused-once', 'Forget');
    await barSays(page, 'Trying again in');
    await on.kill();
    await on.stage.ask('forget', { id: on.server.id });
    await on.start();
    await card(page).getByText('no reliable record of what this attempt did').waitFor();
    const { schedule, last_run: run } = await on.session();
    assert.deepEqual([schedule.state, schedule.replay_safe, schedule.evidence, run.trigger], ['never', false, ['evidence_missing'], 'message']);
    assert.equal(await on.requests(), 1);
  }),

  async 'f19: words that sound like a passing failure are no reason to try again'(on) {
    const { page } = on;
    await on.ask('prose', 'Believe it');
    await card(page).waitFor();
    const verdicts = (await card(page).locator('.verdicts').innerText()).replace(/\s+/g, ' ');
    assert.match(verdicts, /Worth retrying: no, the request is not valid Safe to repeat: yes/);
    assert.equal((await on.session()).schedule.state, 'never');
    assert.equal(await on.requests(), 1);
  },

  async 'f20: what would fail again is not tried again, and each failure names what helps'(on) {
    const { page } = on;
    for (const [model, helps] of Object.entries({
      'auth-failed': 'Change model', 'permission-denied': 'Change model', 'model-not-found': 'Change model', 'spend-limit': 'Change model', quota: 'Change model',
      'context-overflow': 'Change model', 'too-large': 'Edit message', invalid: 'Edit message', 'prompt-filtered': 'Edit message',
    })) {
      await on.ask(model, 'Go on');
      await button(card(page), helps).waitFor();
      await card(page).getByText('Not repeated by itself').waitFor();
      const s = await on.session();
      assert.deepEqual([s.last_run.state, s.schedule.state], ['failed', 'never'], model);
      const sent = await on.requests();
      // A question that is answered meanwhile shows that nothing comes behind the failure.
      await on.api('PATCH', `/sessions/${s.id}`, { model: 'up/ok-fast' });
      await composer(page).fill('Something else');
      await composer(page).press('Enter');
      await complete(page);
      assert.deepEqual([sent, await on.requests({ model, text: 'Go on' })], [1, 1], model);
    }
  },
};

/** The last run has ended for good: both answers are told apart, and why. */
async function never(on, evidence, words) {
  const { page } = on;
  await card(page).getByText(words).waitFor();
  const verdicts = (await card(page).locator('.verdicts').innerText()).replace(/\s+/g, ' ');
  assert.match(verdicts, new RegExp(`Worth retrying: yes.*Safe to repeat: no, .*${evidence}`));
  const { last_run: run, schedule } = await on.session();
  assert.deepEqual([run.state, run.recovery.auto, schedule.state], ['failed', false, 'never']);
}
