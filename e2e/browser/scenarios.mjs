// The page's scenarios, in a real browser against the real binary. It is run by the Go tests
// of e2e, which start the servers, and writes one line of JSON for each scenario.
import { AxeBuilder } from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { ask, complete, composer, drawn, launch, reply, said, until } from './lib.mjs';

const { link, upstream, restart, texts, executablePath } = JSON.parse(process.argv[2]);
const base = new URL(link).origin;

const browser = await launch(executablePath);
const context = await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 800 } });
let complaints = []; // what the browser reports against the page
context.on('request', (r) => {
  const url = new URL(r.url());
  if (url.protocol.startsWith('http') && url.origin !== base) complaints.push(`a request to ${url.origin}`);
});
context.on('console', (m) => m.type() === 'error' && complaints.push(`console: ${m.text()}`));
context.on('weberror', (e) => complaints.push(`error: ${e.error().stack}`));
await context.addInitScript(() => {
  document.addEventListener('securitypolicyviolation', (e) => console.error(`CSP: ${e.violatedDirective} ${e.blockedURI}`));
});

/** How many requests the upstream has had for a model. */
async function requests(model) {
  const report = await (await fetch(`${upstream}/rehearsal/requests`)).json();
  return report.by_model[model] ?? 0;
}

/** The accessibility of what is shown now: light and dark, wide and narrow. */
async function accessible(page, state) {
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 800 });
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      const axe = new AxeBuilder({ page }).setLegacyMode(true);
      if (colorScheme === 'dark') axe.withRules(['color-contrast']); // nothing else depends on it
      const { violations } = await axe.analyze();
      const found = violations.map((v) => `${v.id}: ${v.help}\n  ${v.nodes.map((n) => `${n.html} ${n.any.map((c) => c.message).join(' ')}`).join('\n  ')}`);
      assert.deepEqual(found, [], `${state}, ${colorScheme}, ${width} px`);
      const sideways = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
      assert.equal(sideways, false, `${state}, ${width} px: the page scrolls sideways`);
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** From now on each drawing of the reply must be a beginning of the text, and none shorter than the one before. */
async function follows(page, text) {
  await page.evaluate((text) => {
    let before = '';
    const look = () => {
      const replies = document.querySelectorAll('article.reply');
      const now = [...(replies[replies.length - 1]?.querySelectorAll('.prose') ?? [])].map((p) => p.textContent).join('\n').trimEnd();
      if (now === before) return;
      if (!text.startsWith(now) || now.length < before.length) {
        console.error(`the reply went from "${before}" to "${now}"`);
        observer.disconnect();
      }
      before = now;
    };
    const observer = new MutationObserver(look);
    observer.observe(document.body, { subtree: true, childList: true, characterData: true });
    look();
  }, text);
}

const divider = (page) => reply(page).locator('.divider');
const stop = (page) => page.getByRole('button', { name: 'Stop', exact: true });

const scenarios = {
  async 'the launch link opens the page once'(page) {
    await page.goto(link);
    await page.getByRole('heading', { name: 'New session' }).waitFor();
    assert.equal(page.url(), `${base}/`, 'the secret is still in the address');
    await accessible(page, 'first visit');
    await page.reload();
    await page.getByRole('heading', { name: 'New session' }).waitFor();
  },

  async 'send, stream, complete'(page) {
    await ask(page, base, 'up/steady', 'Say it');
    await follows(page, texts.steady);
    await until(page, 'steady-003');
    assert.ok((await drawn(page)).length < texts.steady.length, 'it was not streamed');
    await said(page).filter({ hasText: 'Reply complete' }).waitFor();
    assert.equal(await drawn(page), texts.steady);
    assert.equal(await divider(page).count(), 0);
    assert.equal(await requests('steady'), 1);
    await accessible(page, 'complete');
    await page.reload();
    await until(page, 'steady-003');
    assert.equal(await drawn(page), texts.steady, 'after a reload');
  },

  async 'Esc stops in the middle of the text, and what was shown stays'(page) {
    await ask(page, base, 'up/hang', 'Stop with a key');
    await until(page, 'hang-029');
    await accessible(page, 'streaming');
    await page.keyboard.press('Escape');
    await divider(page).filter({ hasText: 'you stopped it' }).waitFor();
    const [text, mark] = [await drawn(page), await divider(page).innerText()];
    assert.equal(text, texts.hang);
    assert.match(mark, /^Cancelled .* kept$/s);
    await said(page).filter({ hasText: 'Stopped' }).waitFor();
    await accessible(page, 'cancelled');
    await page.reload();
    await divider(page).waitFor();
    assert.deepEqual([await drawn(page), await divider(page).innerText()], [text, mark], 'after a reload');
    assert.equal(await requests('hang'), 1);
  },

  async 'the Stop button stops, and nothing is sent behind it'(page) {
    await ask(page, base, 'up/hang-too', 'Stop with a click');
    await until(page, 'hang-029');
    await stop(page).click();
    await divider(page).filter({ hasText: 'you stopped it' }).waitFor();
    await stop(page).waitFor({ state: 'detached' });
    assert.equal(await drawn(page), texts.hang);
    assert.equal(await requests('hang-too'), 1);
  },

  async 'a wait before the next attempt is shown and can be stopped'(page) {
    await ask(page, base, 'up/busy', 'Wait');
    await page.getByRole('timer').waitFor();
    await accessible(page, 'waiting');
    await composer(page).press('Escape');
    await divider(page).filter({ hasText: 'nothing had been shown' }).waitFor();
    assert.equal(await page.getByRole('timer').count(), 0);
    assert.equal(await requests('busy'), 1);
  },

  async 'a reload in the middle of the stream loses and repeats nothing'(page) {
    await ask(page, base, 'up/long', 'Say much');
    await until(page, 'long-010');
    await page.reload();
    await until(page, 'long-010');
    await follows(page, texts.long);
    assert.ok((await drawn(page)).length < texts.long.length, 'the stream was over before the reload');
    await said(page).filter({ hasText: 'Reply complete' }).waitFor();
    assert.equal(await drawn(page), texts.long);
    assert.equal(await requests('long'), 1);
  },

  async 'regenerate writes a new reply and keeps the old one readable'(page) {
    await ask(page, base, 'up/twice', 'Once more');
    await complete(page);
    assert.equal(await drawn(page), texts.first);
    await page.getByRole('button', { name: 'Regenerate' }).click();
    await until(page, 'second-009');
    await complete(page);
    assert.equal(await drawn(page), texts.second);
    assert.equal(await page.getByRole('article', { name: /^Reply/ }).count(), 1);
    assert.equal(await page.getByRole('article', { name: /^You/ }).count(), 1);
    await page.reload();
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    const old = page.getByRole('article', { name: /^Superseded/ });
    await old.waitFor();
    assert.equal((await old.locator('.prose').innerText()).trim(), texts.first);
    await accessible(page, 'superseded reply shown');
    assert.equal(await requests('twice'), 2);
  },

  async '503, then success: one reply and no trace of the failure'(page) {
    await ask(page, base, 'up/recovers', 'Recover');
    await follows(page, texts.recovers);
    await complete(page);
    assert.equal(await drawn(page), texts.recovers);
    assert.equal(await page.getByRole('article', { name: /^Reply/ }).count(), 1);
    assert.equal(await divider(page).count(), 0);
    assert.equal(await page.getByRole('group', { name: 'What went wrong' }).count(), 0);
    assert.doesNotMatch(await page.getByRole('log').innerText(), /503|unavailable|overloaded|retry/i);
    assert.equal(await requests('recovers'), 2);
    await page.getByRole('button', { name: 'Attempts' }).click();
    const drawer = page.getByRole('region', { name: 'Attempts' });
    await drawer.getByText('discarded before anything was shown').waitFor();
    assert.equal(await drawer.getByRole('listitem').count(), 2);
    await accessible(page, 'attempts');
    await page.keyboard.press('Escape');
    await drawer.waitFor({ state: 'detached' });
  },

  async 'text, then a failure: kept, with both answers, and never repeated'(page) {
    await ask(page, base, 'up/broken', 'Break');
    const card = page.getByRole('group', { name: 'What went wrong' });
    await card.waitFor();
    const check = async (when) => {
      assert.equal(await drawn(page), texts.broken, when);
      assert.match(await divider(page).innerText(), /^Interrupted/, when);
      const verdicts = (await card.locator('.verdicts').innerText()).replace(/\s+/g, ' ');
      assert.match(verdicts, /Worth retrying: yes/, when);
      assert.match(verdicts, /Safe to repeat: no, text was shown/, when);
      await card.getByText('Not repeated by itself').waitFor();
    };
    await check('at first');
    assert.equal(await stop(page).count(), 0);
    await accessible(page, 'interrupted');
    await page.reload();
    await card.waitFor();
    await check('after a reload');
    assert.equal(await requests('broken'), 1);
  },

  async 'a tool call is shown with its result'(page) {
    await ask(page, base, 'up/tool-fast', 'What time is it?');
    await complete(page);
    const call = reply(page).locator('details.call');
    await call.locator('summary').click();
    await call.getByText('Output').waitFor();
    assert.match(await call.innerText(), /clock[\s\S]*done/);
    await accessible(page, 'tool call');
    assert.equal(await requests('tool-fast'), 2);
  },

  async 'the keyboard: Shift+Enter breaks the line, Esc warns of a draft first'(page) {
    await ask(page, base, 'up/hang-keys', 'Keys');
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

  async 'a second tab follows the same reply and sees it stopped'(page) {
    await ask(page, base, 'up/hang-tabs', 'Tabs');
    await until(page, 'hang-029');
    const other = await context.newPage();
    await other.goto(page.url());
    await until(other, 'hang-029');
    await stop(other).click();
    await divider(page).filter({ hasText: 'you stopped it' }).waitFor();
    await divider(other).filter({ hasText: 'you stopped it' }).waitFor();
    assert.equal(await drawn(page), texts.hang);
    assert.equal(await drawn(other), texts.hang);
    await other.close();
    assert.equal(await requests('hang-tabs'), 1);
  },

  async 'the server is killed in the middle of the text: the page comes back and keeps it'(page) {
    await ask(page, base, 'up/hang-restart', 'Restart');
    await until(page, 'hang-029');
    await follows(page, texts.hang);
    await fetch(restart);
    await divider(page).filter({ hasText: 'the server was restarted' }).waitFor();
    await page.getByRole('group', { name: 'What went wrong' }).getByText('text was shown').waitFor();
    assert.equal(await drawn(page), texts.hang);
    assert.equal(await stop(page).count(), 0);
    await accessible(page, 'after a restart');
    await page.reload();
    await divider(page).filter({ hasText: 'the server was restarted' }).waitFor();
    assert.equal(await drawn(page), texts.hang, 'after a reload');
    assert.equal(await requests('hang-restart'), 1);
    // The browser itself reports that nobody answered meanwhile.
    complaints = complaints.filter((c) => !/net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)/.test(c));
  },

  async 'hostile text does nothing'(page) {
    await ask(page, base, 'up/hostile', 'Attack');
    await complete(page);
    assert.equal(await reply(page).locator('.prose :is(img, script, iframe, object, embed, form, style)').count(), 0);
    const links = await reply(page).locator('.prose a').evaluateAll((all) => all.map((a) => a.protocol));
    assert.deepEqual(links.filter((p) => !['http:', 'https:', 'mailto:'].includes(p)), []);
    assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
    await accessible(page, 'hostile text');
  },

  async 'the list shows what each session is doing'(page) {
    await page.goto(`${base}/`);
    const list = page.getByRole('navigation', { name: 'Sessions' });
    await list.getByRole('link', { name: /Break.*needs you/s }).waitFor();
    await list.getByRole('link', { name: /Stop with a key.*cancelled/s }).waitFor();
    await accessible(page, 'list');
    await list.getByRole('link', { name: /Say it/ }).click();
    await until(page, 'steady-003');
    assert.equal(await drawn(page), texts.steady);
  },
};

for (const [name, scenario] of Object.entries(scenarios)) {
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const began = Date.now();
  complaints = [];
  let error = '';
  try {
    await scenario(page);
    assert.deepEqual(complaints, []);
  } catch (e) {
    const shown = await page.locator('body').ariaSnapshot({ timeout: 5_000 }).catch(() => '');
    error = `${e.stack}\n${complaints.join('\n')}\nThe page shows:\n${shown}`;
  }
  await page.close();
  console.log(JSON.stringify({ name, error, ms: Date.now() - began }));
}
await browser.close();
