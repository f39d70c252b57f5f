// The list of sessions, what can be done from it, the settings, and a page that nobody looks at.
import assert from 'node:assert/strict';
import { accessible, after, bar, barSays, button, complete, composer, divider, drawer, drawn, say, script, sessions, stall, stop, tokens, until } from '../lib.mjs';
import { at, idOf } from '../stage.mjs';

const some = tokens('listed', 12);

export const config = after('60s');
export const models = ['ok-fast', 'overloaded', 'rate-limited-3000s', 'auth-failed', 'failed-inside-text'];
export const scripts = [script('listed-stall', '1ms', [say(some), stall]), script('listed-broken', '1ms', [say(some), { do: 'failed', fault: { kind: 'upstream_stream_error' } }])];

const every = [1280, 390, 320];
const wide = [1280]; // a narrow page draws the list anew
const row = (page, name) => sessions(page).getByRole('link', { name });
const filter = (page, name) => sessions(page).getByRole('group', { name: 'Show' }).getByRole('button', { name });
const more = (page, title) => button(page, `More for ${title}`);

/** A session with a question to a model, made beside the page. */
async function make(on, model, text) {
  const { id } = await on.api('POST', '/sessions', { model: `up/${model}` });
  await on.api('POST', `/sessions/${id}/messages`, { parts: [{ kind: 'text', text }] });
  return id;
}

export const scenarios = {
  'f43: the list has every state in words, in order, with counts, live': at({ own: true }, async (on) => {
    const { page } = on;
    await page.goto(on.base);
    await page.getByText('No sessions yet.').waitFor();
    await make(on, 'ok-fast', 'Done');
    await make(on, 'auth-failed', 'No key');
    await make(on, 'listed-broken', 'Cut off');
    await make(on, 'rate-limited-3000s', 'Later');
    await make(on, 'overloaded', 'Soon');
    await make(on, 'listed-stall', 'Busy');
    for (const name of [/Cut off.*needs you · text was shown/s, /Busy.*running/s, /Soon.*retry in/s, /Later.*retry after/s, /No key.*failed/s, /Done/]) await row(page, name).waitFor();
    const order = (await sessions(page).locator('.row-title').allTextContents()).slice(0, 4);
    assert.deepEqual(order, ['Cut off', 'Busy', 'Soon', 'Later']);
    for (const [name, n] of [['All', 6], ['Running', 1], ['Waiting', 2], ['Needs you', 1]]) await filter(page, `${name} ${n}`).waitFor();
    await accessible(page, 'list', every);
    await filter(page, /^Waiting/).click();
    assert.equal(await row(page, /./).filter({ has: page.locator('.row-title') }).count(), 2);
    await filter(page, /^Needs you/).click();
    assert.equal(await filter(page, /^Needs you/).getAttribute('aria-pressed'), 'true');
    await row(page, /Cut off/).waitFor();
    assert.equal(await row(page, /Busy/).count(), 0);
    assert.match(await page.title(), /^\(1\) /);
    await on.page.goto(`${on.base}/waiting`);
    await page.getByRole('listitem').filter({ hasText: 'Later' }).first().waitFor();
    await accessible(page, 'waiting', every);
  }),

  'the menu of a session, by keyboard: rename, cancel its retry, archive, restore': at({ own: true }, async (on) => {
    const { page } = on;
    const id = await make(on, 'overloaded', 'Nightly report');
    await page.goto(on.base);
    await row(page, /Nightly report.*retry in/s).waitFor();
    await row(page, /Nightly report/).focus();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    const item = (name) => page.getByRole('menuitem', { name });
    await item('Cancel retry').waitFor();
    await accessible(page, 'menu of a session', wide);
    await page.keyboard.press('Escape');
    assert.equal(await page.getByRole('menu').count(), 0);
    assert.equal(await more(page, 'Nightly report').evaluate((b) => b === document.activeElement), true, 'the focus did not come back');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    const title = page.getByRole('textbox', { name: 'Title' });
    await title.waitFor();
    await accessible(page, 'rename', wide);
    await title.fill('Weekly report');
    await title.press('Enter');
    await row(page, /Weekly report/).waitFor();
    assert.equal((await on.api('GET', `/sessions/${id}`)).title, 'Weekly report');

    await more(page, 'Weekly report').click();
    await item('Cancel retry').click();
    await row(page, /Weekly report/).filter({ hasNotText: 'retry in' }).waitFor();
    assert.equal((await on.api('GET', `/sessions/${id}/retry`)).state, 'cancelled');

    await more(page, 'Weekly report').click();
    await item('Archive').click();
    await row(page, /Weekly report/).waitFor({ state: 'detached' });
    await sessions(page).getByRole('link', { name: 'Archived' }).click();
    await page.getByRole('link', { name: /Weekly report/ }).waitFor();
    await accessible(page, 'archived', every);
    await page.getByRole('link', { name: /Weekly report/ }).click();
    await page.getByText('This session is archived.').waitFor();
    assert.equal(await composer(page).count(), 0);
    await accessible(page, 'an archived session');
    await button(page, 'Restore Weekly report').click();
    await composer(page).waitFor();
    await row(page, /Weekly report/).waitFor();
  }),

  'a session is not archived while its run goes on, and the page says so': async (on) => {
    const { page } = on;
    await on.ask('listed-stall', 'Keep on');
    await until(page, 'listed-011');
    on.forgive(/status of 409/);
    await more(page, 'Keep on').first().click();
    await page.getByRole('menuitem', { name: 'Archive' }).click();
    await page.getByText('Stop it before you archive').first().waitFor();
    await stop(page).click();
    await divider(page).waitFor();
    assert.equal(await drawn(page), some);
  },

  'a retry is put off: to a time of the menu, and to one of the clock': async (on) => {
    const { page } = on;
    await on.ask('overloaded', 'Put it off');
    await barSays(page, 'Trying again in');
    await button(page, 'Later').click();
    await accessible(page, 'later times');
    const asked = Date.now();
    await page.getByRole('menuitem', { name: 'In 30 min' }).click();
    await barSays(page, 'Retry after');
    const first = await on.api('GET', `/sessions/${idOf(page)}/retry`);
    assert.equal(first.state, 'scheduled');
    assert.ok(Math.abs(first.next_at - asked - 30 * 60_000) < 30_000, `${first.next_at - asked} ms from now`);
    await button(page, 'Later').click();
    await page.getByRole('menuitem', { name: 'At a time…' }).click();
    const far = new Date(asked + 5 * 3600_000);
    await page.getByLabel('Not before').fill(`${String(far.getHours()).padStart(2, '0')}:${String(far.getMinutes()).padStart(2, '0')}`);
    await accessible(page, 'a time of the clock');
    await button(page, 'Set the time').click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    let second = first;
    while (second.token === first.token) second = await on.api('GET', `/sessions/${idOf(page)}/retry`);
    assert.equal(second.next_at, far.setSeconds(0, 0));
    await button(page, 'Cancel retry').click();
    await barSays(page, 'Retry cancelled');
    assert.equal(await on.requests(), 2, 'more was sent than the first tier does');
  },

  'without a network a due retry is held, and says so': at({
    // One more of the providers. TCP has no way to a group address: nothing leaves this machine.
    config: "  far: {dialect: chat, base_url: 'http://224.0.0.1:9/v1', models: [m]}\nrecovery: {tier1: {attempts: 1}, tier2: {base: 10ms}}",
  }, async (on) => {
    const { page } = on;
    await page.goto(`${on.base}/new`);
    await composer(page).fill('Is anybody there?');
    await composer(page).press('Enter');
    await barSays(page, 'No network on the server. Waiting.');
    await row(page, /Is anybody there.*waits for a network/s).waitFor();
    await accessible(page, 'held without a network', every);
    const { id } = await on.session();
    const before = await on.api('GET', `/sessions/${id}/retry`);
    assert.deepEqual([before.state, before.hold_reason, before.attempt], ['held', 'offline', 1]);
    await button(page, 'Try now').click();
    let again = before;
    while (again.attempt < 2 || again.state !== 'held') again = (await on.session()).schedule ?? again;
    assert.equal(again.hold_reason, 'offline');
    await barSays(page, 'No network on the server. Waiting.');
    await button(page, 'Cancel retry').click();
    await barSays(page, 'Retry cancelled');
  }),

  'settings of the server count at once, say where they are from, and can be taken back': at({ own: true, config: 'recovery: {tier1: {attempts: 1}, tier2: {base: 50s}}' }, async (on) => {
    const { page } = on;
    await page.goto(`${on.base}/settings`);
    const first = page.getByLabel('First wait');
    await first.waitFor();
    await page.getByText('From the configuration file.').waitFor();
    await accessible(page, 'settings', every);
    on.forgive(/status of 400/);
    await first.fill('soon');
    await first.press('Enter');
    await page.getByText('is not a duration').waitFor();
    assert.equal(await first.getAttribute('aria-invalid'), 'true');
    await accessible(page, 'a setting that is refused');
    await first.fill('75s');
    await button(page, 'Save').click();
    await page.getByText('Set here; the file says 50 s.').waitFor();
    await on.ask('overloaded', 'Wait longer');
    await barSays(page, /Trying again in 7\d s/);

    await page.goto(`${on.base}/settings`);
    await button(page, 'Reset recovery.tier2.base').click();
    await page.getByText('From the configuration file.').waitFor();
    assert.equal(await first.inputValue(), '50s');
    await page.getByRole('radio', { name: /Also when nobody watches/ }).check();
    const ceiling = page.getByLabel('Give up after');
    await ceiling.waitFor();
    await page.waitForFunction((input) => input.value === '12h', await ceiling.elementHandle());
    const { settings } = await on.api('GET', '/settings');
    assert.deepEqual(settings.filter((s) => s.set).map((s) => [s.key, s.value]), [['recovery.tier2.mode', 'unattended'], ['recovery.tier2.max_elapsed', '12h']]);
    await on.kill();
    await on.start();
    await page.reload();
    await ceiling.waitFor();
    assert.equal(await page.getByRole('radio', { name: /Also when nobody watches/ }).isChecked(), true, 'after a restart');
  }),

  'ask before every retry: what is due waits for a click': at({ own: true, config: 'recovery: {tier1: {attempts: 1}, tier2: {base: 10ms}}' }, async (on) => {
    const { page } = on;
    await page.goto(`${on.base}/settings`);
    await page.getByRole('switch', { name: /Ask before every retry/ }).check();
    await page.getByText('Set here; the default is off.').waitFor();
    await on.ask('overloaded', 'Ask me');
    await barSays(page, 'Ready. It starts when you try now.');
    await accessible(page, 'held until a click');
    assert.equal(await on.requests(), 1);
    await on.api('PATCH', '/settings', { reset: ['recovery.tier2.ask'] });
    await barSays(page, 'Trying again in'); // ten seconds of warning
    await button(page, 'Cancel retry').click();
    await barSays(page, 'Retry cancelled');
    assert.equal(await on.requests(), 1);
  }),

  'f38: what a session costs adds up, and says when it is more, and how near its limit': at({
    config: "models: {'up/*': {input: 1000, output: 5000, max_output: 1000}}\nspend: {session: 100}\nrecovery: {tier1: {attempts: 1}, tier2: {mode: 'off'}}",
  }, async (on) => {
    const { page } = on;
    await on.ask('ok-fast', 'What does it cost?');
    await complete(page);
    const whole = await on.session();
    assert.ok(whole.spend.amount > 0 && !whole.spend.at_least);
    const figure = (n) => `$${(Math.ceil(n / 1e7) / 100).toFixed(2)}`; // a tenth of a dollar or more
    await page.locator('.head-spend').getByText(figure(whole.spend.amount)).waitFor();
    assert.equal(await page.locator('.actions .cost').innerText(), figure(whole.spend.amount));
    await accessible(page, 'a reply that cost something');
    await button(page, 'Attempts').click();
    await drawer(page).getByText(`All attempts cost ${figure(whole.spend.amount)}`).waitFor();
    await drawer(page).getByText(`cost ${figure(whole.spend.amount)}`, { exact: false }).first().waitFor();
    await page.keyboard.press('Escape');

    await page.getByRole('combobox', { name: 'Model' }).selectOption('up/listed-broken');
    await composer(page).fill('And this?');
    await composer(page).press('Enter');
    await divider(page).waitFor();
    const more = await on.session();
    assert.ok(more.spend.at_least && more.spend.amount > whole.spend.amount);
    await page.locator('.head-spend').getByText(`≥ ${figure(more.spend.amount)}`).waitFor();
    const limit = Math.ceil(more.spend.amount / 0.9);
    await on.api('PATCH', `/sessions/${more.id}`, { settings: { spend_limit: limit } });
    await page.locator('.head-spend strong').filter({ hasText: '% of $' }).waitFor();
    await accessible(page, 'near the limit');
  }),

  'settings of the device: colours, the clock, times in place of countdowns, the Enter key': async (on) => {
    const { page } = on;
    await page.goto(`${on.base}/settings`);
    const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await background();
    await page.getByRole('radio', { name: 'Dark', exact: true }).check();
    assert.notEqual(await background(), light);
    await page.getByRole('radio', { name: /24 hours/ }).check();
    await page.getByRole('radio', { name: /Breaks the line/ }).check();
    await page.getByRole('switch', { name: /Show times, not countdowns/ }).check();
    await page.goto(`${on.base}/new`);
    assert.notEqual(await background(), light, 'after a reload');
    await page.getByRole('combobox', { name: 'Model' }).selectOption('up/overloaded');
    await composer(page).fill('one');
    await composer(page).press('Enter');
    assert.equal(await composer(page).inputValue(), 'one\n');
    await composer(page).press('Control+Enter');
    await barSays(page, /Trying again at \d\d:\d\d:\d\d\./);
    assert.equal(await page.getByRole('timer').count(), 0);
  },

  'K-182, K-185: a hidden page tells of what needs the operator once, with the way there, and counts it': async (on) => {
    const { page, context } = on;
    await context.grantPermissions(['notifications'], { origin: on.base });
    await context.addInitScript(() => {
      globalThis.told = [];
      globalThis.Notification = class {
        static permission = 'granted';
        constructor(title, options) {
          told.push({ title, ...options, click: () => this.onclick() });
        }
        close() {}
      };
      localStorage.setItem('reprise.device', JSON.stringify({ notify: true }));
    });
    await page.clock.install();
    await page.goto(`${on.base}/new`);
    await composer(page).waitFor();
    const look = (state) =>
      page.evaluate((state) => {
        for (const [name, value] of [['visibilityState', state], ['hidden', state === 'hidden']]) Object.defineProperty(document, name, { configurable: true, get: () => value });
        document.dispatchEvent(new Event('visibilitychange'));
      }, state);
    await look('hidden');
    const gone = page.waitForEvent('requestfailed', (r) => r.url().includes('/events'));
    await page.clock.runFor(20_000); // it lets go of its stream
    await gone;
    const id = await make(on, 'listed-broken', 'Look here');
    while (!(await on.api('GET', `/sessions/${id}`)).last_run?.failure);
    for (let i = 0; i < 2; i++) {
      const asked = page.waitForResponse((r) => r.url().includes('changed_after'));
      await page.clock.runFor(31_000);
      await asked;
    }
    await page.clock.runFor(1000);
    const mine = (all) => all.filter((n) => n.tag === id).map(({ title, body }) => [title, body]);
    await page.waitForFunction((id) => told.some((n) => n.tag === id), id);
    assert.deepEqual(mine(await page.evaluate(() => told.map(({ click, ...n }) => n))), [['Look here: needs you', 'Text was shown.']]);
    assert.match(await page.title(), /^\(\d+\) /);
    await page.evaluate((id) => told.find((n) => n.tag === id).click(), id);
    await page.waitForURL(`${on.base}/s/${id}`);
    await look('visible');
    await until(page, 'listed-011');
    await accessible(page, 'after a notice');
  },
};
