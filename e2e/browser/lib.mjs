// What the scenarios and the pictures share: the browser, and how a person uses the page.
import axe from 'axe-core';
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

/** Starts Chromium. Nothing in it talks to anybody but the page's server. */
export const launch = (executablePath) =>
  chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });

export const composer = (page) => page.getByRole('textbox', { name: 'Message', exact: true });

export const reply = (page) => page.getByRole('article', { name: /^Reply/ }).last();

/** The status line of screen readers, which says the boundaries of a reply. */
export const said = (page) => page.getByRole('status');

export const divider = (page) => reply(page).locator('.divider');
export const button = (page, name) => page.getByRole('button', { name, exact: true });
export const stop = (page) => button(page, 'Stop');
export const bar = (page) => page.getByRole('region', { name: 'Retry' });
export const drawer = (page) => page.getByRole('region', { name: 'Attempts' });
export const card = (page) => page.getByRole('group', { name: 'What went wrong' });
export const sessions = (page) => page.getByRole('navigation', { name: 'Sessions' });

/** Opens a new session with a model and sends the text with the Enter key. */
export async function ask(page, base, model, text) {
  await page.goto(`${base}/new`);
  await page.getByRole('combobox', { name: 'Model' }).selectOption(model);
  await composer(page).fill(text);
  await composer(page).press('Enter');
  await page.waitForURL(/\/s\/ses_/);
}

/** Waits until the reply is whole. */
export const complete = (page) => reply(page).getByRole('button', { name: 'Regenerate', disabled: false }).waitFor();

/** Waits until the reply shows some text. */
export const until = (page, text) => reply(page).locator('.prose').filter({ hasText: text }).first().waitFor();

/** Waits until the retry bar says something. */
export const barSays = (page, text) => bar(page).filter({ hasText: text }).waitFor();

/** The text of the reply, as it is drawn. */
export const drawn = async (page) => (await reply(page).locator('.prose').allTextContents()).join('\n').trim();

/** A text of n words that each occur once. */
export const tokens = (name, n) => Array.from({ length: n }, (_, i) => `${name}-${String(i).padStart(3, '0')}`).join(' ');

const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** The accessibility of what is shown now: light and dark, wide and narrow. */
export async function accessible(page, state, widths = [1280, 390]) {
  const before = page.viewportSize();
  await page.evaluate(axe.source);
  for (const width of widths) {
    await page.setViewportSize({ width, height: 800 });
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      const { found, sideways } = await page.evaluate(async (values) => {
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        const { violations } = await axe.run({ runOnly: { type: 'tag', values }, resultTypes: ['violations'] });
        return {
          found: violations.map((v) => `${v.id}: ${v.help}\n  ${v.nodes.map((n) => `${n.html} ${n.failureSummary}`).join('\n  ')}`),
          sideways: document.documentElement.scrollWidth > document.documentElement.clientWidth,
        };
      }, rules);
      assert.deepEqual(found, [], `${state}, ${colorScheme}, ${width} px`);
      assert.equal(sideways, false, `${state}, ${width} px: the page scrolls sideways`);
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize(before);
}

/** From now on each drawing of the reply must be a beginning of the text, and none shorter than the one before. */
export async function follows(page, text) {
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

// Configurations that several files use.

/** All automatic recovery at its most eager. */
export const eager = `recovery:
  tier1: {attempts: 8, base: 5ms, cap: 30s}
  tier2: {mode: interactive, auto_within: 0}
  unknown: bounded
  max_requests_per_step: 50`;

/** A failed run is repeated after this time. */
export const after = (base) => `recovery: {tier1: {attempts: 2, base: 5ms}, tier2: {base: ${base}}}`;

// Scripts of the upstream.

export const say = (text) => ({ do: 'say', text });
export const stall = { do: 'stall' };
export const broken = { do: 'failed', fault: { kind: 'upstream_stream_error' } };
export const refused = (kind, more) => [{ do: 'status', fault: { kind, ...more } }];
export const script = (name, pause, ...takes) => ({ name, pause, scenes: [takes] });
