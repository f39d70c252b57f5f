// What the scenarios and the pictures share: the browser, and how a person uses the page.
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

/** The text of the reply, as it is drawn. */
export const drawn = async (page) => (await reply(page).locator('.prose').allTextContents()).join('\n').trim();
