// Asking, reading and stopping.
import assert from 'node:assert/strict';
import { accessible, ask, button, complete, composer, divider, drawn, eager, follows, reply, said, say, script, sessions, stall, stop, tokens, until } from '../lib.mjs';
import { at } from '../stage.mjs';

const text = { steady: tokens('steady', 60), hang: tokens('hang', 30), long: tokens('long', 120) };

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
    const call = reply(page).locator('details.call');
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
};
