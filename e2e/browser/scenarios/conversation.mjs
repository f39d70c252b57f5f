// Asking, reading and stopping.
import assert from 'node:assert/strict';
import { accessible, ask, button, complete, composer, divider, drawn, eager, follows, reply, said, say, script, sessions, stall, stop, tokens, until } from '../lib.mjs';
import { at } from '../stage.mjs';

const text = { steady: tokens('steady', 60), hang: tokens('hang', 30), long: tokens('long', 120), slow: tokens('slow', 500) };

// What a page must show and never obey.
const hostile = `<script>globalThis.pwned = 1</script><img src="http://192.0.2.1/a.png" onerror="globalThis.pwned = 2">

![remote](http://192.0.2.1/b.png) [a](javascript:globalThis.pwned=3) [b](data:text/html,<script>1</script>) [c](//192.0.2.1/d)

<iframe src="http://192.0.2.1/"></iframe> <a href="javascript:globalThis.pwned=4">d</a> <style>*{display:none}</style>

| a | b |
|---|---|
| <svg onload=globalThis.pwned=5> | [e](vbscript:x) |
${'| cell | cell |\n'.repeat(300)}
\`\`\`html
<script>globalThis.pwned = 6</script>
\`\`\`

`;

export const config = eager;
export const models = ['tool-fast'];
export const scripts = [
  script('steady', '20ms', [say(text.steady)]),
  script('hang', '1ms', [say(text.hang), stall]),
  script('long', '40ms', [say(text.long)]),
  script('hostile', '1ms', [say(hostile)]),
  script('silence', '1ms', [stall]),
  script('slow', '50ms', [say(text.slow)]),
];

export const scenarios = {
  'the launch link opens the page once': at({ own: true, context: { storageState: undefined } }, async (on) => {
    const { page, base } = on;
    const { stdout } = await on.reprise('link');
    await page.goto(stdout.trim());
    await page.getByRole('heading', { name: 'New session' }).waitFor();
    assert.equal(page.url(), `${base}/`, 'the secret is still in the address');
    await accessible(page, 'first visit');
    await page.reload();
    await page.getByRole('heading', { name: 'New session' }).waitFor();
  }),

  async 'f1: send, stream, complete'(on) {
    const { page } = on;
    await on.ask('steady', 'Say it');
    await follows(page, text.steady);
    await until(page, 'steady-003');
    assert.ok((await drawn(page)).length < text.steady.length, 'it was not streamed');
    await said(page).filter({ hasText: 'Reply complete' }).waitFor();
    assert.equal(await drawn(page), text.steady);
    assert.equal(await divider(page).count(), 0);
    assert.equal(await on.requests(), 1);
    await page.reload();
    await until(page, 'steady-003');
    assert.equal(await drawn(page), text.steady, 'after a reload');
  },

  async 'f10: Esc stops in the middle of the text, and what was shown stays'(on) {
    const { page } = on;
    await on.ask('hang', 'Stop with a key');
    await until(page, 'hang-029');
    await page.keyboard.press('Escape');
    await divider(page).filter({ hasText: 'you stopped it' }).waitFor();
    const [kept, mark] = [await drawn(page), await divider(page).innerText()];
    assert.equal(kept, text.hang);
    assert.match(mark, /^Cancelled .* kept$/s);
    await said(page).filter({ hasText: 'Stopped' }).waitFor();
    await page.reload();
    await divider(page).waitFor();
    assert.deepEqual([await drawn(page), await divider(page).innerText()], [kept, mark], 'after a reload');
    assert.equal(await on.requests(), 1);
  },

  async 'f10: the Stop button stops, and nothing is sent behind it'(on) {
    const { page } = on;
    await on.ask('hang', 'Stop with a click');
    await until(page, 'hang-029');
    await stop(page).click();
    await divider(page).filter({ hasText: 'you stopped it' }).waitFor();
    await stop(page).waitFor({ state: 'detached' });
    assert.equal(await drawn(page), text.hang);
    assert.equal(await on.requests(), 1);
  },

  async 'a reload in the middle of the stream loses and repeats nothing'(on) {
    const { page } = on;
    await on.ask('long', 'Say much');
    await until(page, 'long-010');
    await page.reload();
    await until(page, 'long-010');
    await follows(page, text.long);
    assert.ok((await drawn(page)).length < text.long.length, 'the stream was over before the reload');
    await said(page).filter({ hasText: 'Reply complete' }).waitFor();
    assert.equal(await drawn(page), text.long);
    assert.equal(await on.requests(), 1);
  },

  async 'a tool call is shown with its result'(on) {
    const { page } = on;
    await on.ask('tool-fast', 'What time is it?');
    await complete(page);
    const call = reply(page).locator('.call');
    await call.locator('summary').click();
    await call.getByText('Output').waitFor();
    assert.match(await call.innerText(), /clock[\s\S]*done/);
    assert.equal(await on.requests(), 2);
  },

  async 'the keyboard: Shift+Enter breaks the line, Esc warns of a draft first'(on) {
    const { page } = on;
    await on.ask('hang', 'Keys');
    await until(page, 'hang-029');
    await composer(page).fill('one');
    await composer(page).press('Shift+Enter');
    await composer(page).pressSequentially('two');
    assert.equal(await composer(page).inputValue(), 'one\ntwo');
    await composer(page).press('Escape');
    await page.getByText('Press Esc again to stop').first().waitFor();
    assert.equal(await stop(page).count(), 1);
    await composer(page).press('Escape');
    await divider(page).waitFor();
    assert.equal(await composer(page).inputValue(), 'one\ntwo', 'the draft is gone');
    await page.reload();
    assert.equal(await composer(page).inputValue(), 'one\ntwo', 'the draft is gone after a reload');
  },

  async 'a second tab follows the same reply and sees it stopped'(on) {
    const { page } = on;
    await on.ask('hang', 'Tabs');
    await until(page, 'hang-029');
    const other = await on.tab(new URL(page.url()).pathname);
    await until(other, 'hang-029');
    await stop(other).click();
    await divider(page).filter({ hasText: 'you stopped it' }).waitFor();
    await divider(other).filter({ hasText: 'you stopped it' }).waitFor();
    assert.equal(await drawn(page), text.hang);
    assert.equal(await drawn(other), text.hang);
    assert.equal(await on.requests(), 1);
  },

  async 'f29: hostile text does nothing'(on) {
    const { page } = on;
    await on.ask('hostile', 'Attack');
    await complete(page);
    assert.equal(await reply(page).locator('.prose :is(img, script, iframe, object, embed, form, style)').count(), 0);
    const links = await reply(page).locator('.prose a').evaluateAll((all) => all.map((a) => a.protocol));
    assert.deepEqual(links.filter((p) => !['http:', 'https:', 'mailto:'].includes(p)), []);
    assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
    await accessible(page, 'hostile text');
  },

  async 'f9: Stop before the first word closes the connection to the provider'(on) {
    const { page } = on;
    await on.ask('silence', 'Say nothing');
    await page.getByText('Waiting for silence').waitFor();
    await stop(page).click();
    await divider(page).filter({ hasText: 'nothing had been shown' }).waitFor();
    assert.equal((await on.session()).last_run.state, 'cancelled');
    const sent = await on.sent();
    assert.deepEqual(sent.map((r) => r.closed_early), [true]);
  },

  'f12: a Stop that gets lost is told, and the run is still shown': at({ wire: true }, async (on) => {
    const { page } = on;
    await on.ask('hang', 'Stop if you can');
    await until(page, 'hang-029');
    on.forgiveNetwork();
    let lose;
    await page.route('**/cancel', (route) => void (lose = () => route.abort()));
    await stop(page).click();
    await button(page, 'Stopping…').waitFor();
    lose();
    await page.getByRole('alert').filter({ hasText: 'Stop was not delivered. The run may still be going.' }).waitFor();
    await stop(page).waitFor();
    assert.equal((await on.session()).last_run.state, 'running');
    await page.unroute('**/cancel');
    on.wire.cut();
    await page.getByText('Connection lost.').waitFor();
    await stop(page).click(); // it stays a button, and says what came of it
    await page.getByRole('alert').filter({ hasText: 'Stop was not delivered' }).waitFor();
    on.wire.mend();
    await page.getByText('Back. Everything is caught up.').waitFor();
    await stop(page).click();
    await divider(page).filter({ hasText: 'you stopped it' }).waitFor();
    assert.equal(await drawn(page), text.hang);
    assert.equal(await on.requests(), 1);
  }),

  async 'f28: a double click on Regenerate is one run, and so is a repeated request'(on) {
    const { page } = on;
    await on.ask('twice', 'Twice');
    await complete(page);
    const posts = [];
    page.on('request', (r) => /regenerate$/.test(r.url()) && posts.push(r));
    await button(page, 'Regenerate').dblclick();
    await until(page, 'second-009');
    await complete(page);
    const { last_run: run } = await on.session();
    // The same request again, as a proxy or a browser may send it.
    const again = await on.context.request.fetch(posts[0].url(), { method: 'POST', headers: { 'Idempotency-Key': posts[0].headers()['idempotency-key'] }, data: posts[0].postDataJSON() });
    assert.equal((await again.json()).run_id, run.id);
    assert.equal((await on.session()).last_run.id, run.id);
    assert.equal(await on.requests(), 2);
  },

  'f31: the connection is cut for three seconds, then for five minutes: no gap, no repetition': at({ wire: true }, async (on) => {
    const { page } = on;
    await page.clock.install();
    await on.ask('slow', 'Go on without me');
    await until(page, 'slow-005');
    await follows(page, text.slow);
    on.forgiveNetwork();
    for (const minutes of [0, 5]) {
      const before = await drawn(page);
      const lost = page.waitForEvent('requestfailed', (r) => /events/.test(r.url()));
      await page.clock.pauseAt((await page.evaluate(() => Date.now())) + 1_000);
      on.wire.cut();
      await lost;
      await page.clock.runFor(1_500);
      assert.equal(await page.getByText('Connection lost.').count(), 0, 'it complains at once');
      await page.clock.runFor(1_500);
      await page.getByText('The session goes on without you').waitFor();
      if (minutes > 0) {
        await page.clock.fastForward(`0${minutes}:01`);
        await page.clock.runFor(1_000);
        await page.getByText('Still offline.').waitFor();
      }
      const now = await button(page, 'Try now').elementHandle();
      await page.clock.resume();
      on.wire.mend();
      if (minutes > 0) await now.evaluate((b) => b.click());
      await page.getByText('Back. Everything is caught up.').waitFor();
      await page.waitForFunction((n) => document.querySelector('article.reply .prose').textContent.length > n, before.length);
    }
    await complete(page);
    assert.equal(await drawn(page), text.slow);
    assert.equal((await on.messages()).at(-1).parts[0].text.trim(), text.slow);
    assert.equal(await on.requests(), 1);
  }),

  async 'f36: two messages are queued, one is changed, one removed; after Stop nothing starts until it is sent'(on) {
    const { page } = on;
    const queue = page.getByRole('region', { name: 'Queued messages' });
    await on.ask('hang', 'First');
    await until(page, 'hang-029');
    for (const words of ['Second', 'Third', 'Fourth']) {
      await composer(page).fill(words);
      await button(page, 'Queue').click();
      await queue.getByText(words).waitFor();
    }
    await button(page, 'Edit queued message 2').click();
    await page.getByRole('textbox', { name: 'Queued message 2' }).fill('Third, changed');
    await button(page, 'Save').click();
    await queue.getByText('Third, changed').waitFor();
    await button(page, 'Remove queued message 1').click();
    await queue.getByText('Second').waitFor({ state: 'detached' });
    await page.reload();
    await queue.getByText('Third, changed').waitFor();
    assert.deepEqual(await queue.locator('.chip-text').allInnerTexts(), ['Third, changed', 'Fourth']);
    await stop(page).click();
    await page.getByText('The queue waits').waitFor();
    const stopped = await on.session();
    assert.deepEqual([stopped.last_run.state, stopped.state, stopped.paused], ['cancelled', 'idle', true]);
    await button(page, 'Send queued message 1 next').click();
    await page.getByRole('article', { name: /^You/ }).filter({ hasText: 'Third, changed' }).waitFor();
    await until(page, 'hang-029');
    const rows = (await on.messages()).filter((m) => m.role === 'operator').map((m) => m.parts[0].text);
    assert.deepEqual(rows, ['First', 'Third, changed']);
    assert.deepEqual(await queue.locator('.chip-text').allInnerTexts(), ['Fourth']);
    assert.equal(await on.requests(), 1);
  },
};
