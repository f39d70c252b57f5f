// A person at a browser who does what a Go test of e2e says: each line of the input opens a
// page or presses a button of one that is open, and each line of the output says what went
// wrong with that.
import { createInterface } from 'node:readline';
import { button, launch } from './lib.mjs';

const { executablePath } = JSON.parse(process.argv[2]);
const browser = await launch(executablePath);
const tabs = new Map();

async function open({ id, link, path }) {
  const context = await browser.newContext({ reducedMotion: 'reduce' });
  const secret = decodeURIComponent(new URL(link).hash.slice('#launch='.length));
  await context.request.post(`${new URL(link).origin}/auth/launch`, { data: { secret } });
  const page = await context.newPage();
  tabs.set(id, page);
  page.setDefaultTimeout(60_000);
  await page.goto(new URL(path, link).href);
  await page.getByRole('textbox', { name: 'Message', exact: true }).waitFor();
}

async function press({ tab, press: { button: name, then, at } }) {
  const page = tabs.get(tab);
  const target = button(page, name);
  try {
    await target.waitFor();
    if (at) await new Promise((go) => setTimeout(go, at - Date.now()));
    if (then) {
      await target.click();
      await page.getByText(then).first().waitFor();
    } else {
      await target.click({ timeout: 500 }).catch(() => {}); // something else was quicker
    }
  } catch (e) {
    throw new Error(`${e.message}\n${await page.locator('body').ariaSnapshot()}`);
  }
  await page.context().close();
}

// Pages open one after the other: at once they would only wait for each other.
let opened = Promise.resolve();
const acts = [];
for await (const line of createInterface(process.stdin)) {
  const what = JSON.parse(line);
  const act = what.link ? (opened = opened.then(() => open(what), () => open(what))) : press(what);
  acts.push(act.then(() => '', (e) => e.message).then((error) => console.log(JSON.stringify({ id: what.id, error }))));
}
await Promise.all(acts);
await browser.close();
