// Other models: who answered, and why the first one did not.
import assert from 'node:assert/strict';
import { accessible, ask, button, complete, composer, drawer, drawn, eager, refused, reply, say, script, tokens } from '../lib.mjs';

const text = tokens('second', 10);

export const config = `chains: {pair: [up/large-overloaded, up/small]}\n${eager}`;
export const scripts = [script('large-overloaded', '1ms', refused('overloaded')), script('small', '1ms', [say(text)])];

export const scenarios = {
  async 'd11: a reply says for good which model wrote it, and why it was not the first'(on) {
    const { page } = on;
    await ask(page, on.base, 'pair', 'Who answers?');
    await complete(page);
    const check = () => reply(page).filter({ hasText: 'small' }).filter({ hasText: 'instead of large-overloaded: overloaded' }).waitFor();
    await check();
    assert.equal(await drawn(page), text);
    await page.reload();
    await check();
    const attempts = await on.attempts();
    assert.equal(attempts.at(-1).instead_of.reason, 'overloaded');
    await button(page, 'Attempts').first().click();
    await drawer(page).getByText('next model · small').waitFor();
    await drawer(page).getByText('Not large-overloaded: overloaded').waitFor();
    await accessible(page, 'the attempts of a chain');
    await button(page, 'Close attempts').click();
    // The first model is left alone: the next question does not wait for it.
    await composer(page).fill('And now?');
    await composer(page).press('Enter');
    await reply(page).filter({ hasText: 'instead of large-overloaded: cooling off' }).waitFor();
    await complete(page);
    assert.equal((await on.attempts()).length, 1);
  },
};
