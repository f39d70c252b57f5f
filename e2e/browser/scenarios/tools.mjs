// Tools that act on a folder: asked about, followed, stopped, and cut off.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accessible, button, card, complete, divider, reply, say, sessions, stop, until } from '../lib.mjs';
import { at, idOf } from '../stage.mjs';

const dir = mkdtempSync(join(tmpdir(), 'workspace-'));
const file = (name) => readFileSync(join(dir, name), 'utf8');
writeFileSync(join(dir, 'greeting.txt'), 'Good day\n');

const calls = (name, tool, args) => ({ name, pause: '1ms', scenes: [[[{ do: 'call', name: tool, arguments: JSON.stringify(args) }]], [[say('That is all.')]]] });
const approve = (how) => `tools: {workspace: "${dir}", subagents: {enabled: true}, approve: {"*": ${how}}}`;
export const config = approve('ask');
export const scripts = [
  calls('edits', 'edit_file', { path: 'greeting.txt', old_text: 'day', new_text: 'evening' }),
  calls('writes', 'write_file', { path: 'new.txt', content: 'Something\n' }),
  calls('boss', 'delegate', { task: 'Write a file', title: 'The file', model: 'up/helper' }),
  calls('helper', 'write_file', { path: 'helped.txt', content: 'Helped\n' }),
  calls('sleeps', 'run_command', { command: 'echo begun >> begun.txt; sleep 60; echo ended >> begun.txt' }),
];

const tool = (page, name) => reply(page).locator('.call').filter({ hasText: name });
const state = (page, name, words) => tool(page, name).locator('.call-state', { hasText: words }).waitFor();
const begun = async () => {
  for (let i = 0; i < 500; i++) {
    try {
      return file('begun.txt');
    } catch {
      await new Promise((done) => setTimeout(done, 20));
    }
  }
  assert.fail('the command has not begun');
};

export const scenarios = {
  async 'an edit is asked about, approved in one of two tabs, and shown as a change'(on) {
    const { page } = on;
    await on.ask('edits', 'Greet in the evening');
    await state(page, 'edit_file', 'asks you');
    await sessions(page).getByText(/needs you/).first().waitFor();
    await accessible(page, 'a call that is asked about');
    const other = await on.tab();
    await other.goto(page.url());
    await button(other, 'Approve').waitFor();
    await page.reload();
    assert.equal(file('greeting.txt'), 'Good day\n');
    await button(page, 'Approve').click();
    await complete(page);
    await button(other, 'Approve').waitFor({ state: 'detached' });
    assert.equal(file('greeting.txt'), 'Good evening\n');
    await tool(page, 'edit_file').locator('summary').click();
    assert.deepEqual(await tool(page, 'edit_file').locator('.added, .removed').allTextContents(), ['-Good day\n', '+Good evening\n']);
    await accessible(page, 'a change');
    const { stdout } = await on.reprise('explain', (await on.session()).last_run.id);
    assert.match(stdout, /edit_file[\s\S]*approved/);
  },

  async 'a denial says why, and nothing is written'(on) {
    const { page } = on;
    await on.ask('writes', 'Write something');
    await page.getByRole('textbox', { name: /Reason/ }).fill('not in this folder');
    await button(page, 'Deny').click();
    await complete(page);
    await state(page, 'write_file', 'denied');
    assert.throws(() => file('new.txt'));
    const { messages } = await on.api('GET', `/sessions/${idOf(page)}/messages`);
    assert.match(JSON.stringify(messages), /not in this folder/);
  },

  async 'a subagent is a branch of its session, and what it asks is asked of the operator'(on) {
    const { page } = on;
    await on.ask('boss', 'Have it written');
    await button(page, 'Approve').click(); // of the delegation itself
    const branch = page.getByRole('link', { name: 'Subagent: The file' });
    await branch.waitFor();
    await reply(page).locator('.state-needs-you').filter({ hasText: 'needs you' }).waitFor();
    await accessible(page, 'a session with a subagent');
    const home = page.url();
    await branch.click();
    await state(page, 'write_file', 'asks you');
    await page.reload();
    await button(page, 'Approve').click();
    await complete(page);
    await page.getByRole('link', { name: /^Part of Have it written/ }).click();
    await complete(page);
    assert.equal(page.url(), home);
    assert.equal(file('helped.txt'), 'Helped\n');
    await sessions(page).getByRole('link', { name: /The file/ }).waitFor({ state: 'detached' });
  },

  'f11: Stop while a tool runs says what is known of it': at({ config: approve('allow'), own: true }, async (on) => {
    const { page } = on;
    await on.ask('sleeps', 'Sleep');
    await state(page, 'run_command', 'running');
    await stop(page).click();
    await divider(page).filter({ hasText: 'Cancelled' }).waitFor();
    const words = await tool(page, 'run_command').locator('.call-state').textContent();
    assert.ok(['cancelled', 'outcome unknown'].includes(words), words);
    assert.equal(await on.requests(), 1, 'a request after the cancel');
  }),

  'kill -9 while a command runs: its outcome is unknown, it is asked about, and it is not run again': at({ own: true, waits: true }, async (on) => {
    const { page } = on;
    await on.ask('sleeps', 'Sleep through it');
    await button(page, 'Approve').click();
    await state(page, 'run_command', 'running');
    const before = await begun();
    await on.kill();
    await on.start();
    await page.reload();
    await state(page, 'run_command', 'outcome unknown');
    await accessible(page, 'an outcome that nobody knows');
    await card(page).getByRole('button', { name: 'Review effects' }).click();
    await page.getByRole('button', { name: 'It was done' }).click();
    await page.getByRole('button', { name: 'Go on after the last step' }).click();
    await until(page, 'That is all.');
    assert.equal(await begun(), before, 'the command was run again');
    const { runs } = await on.api('GET', `/sessions/${idOf(page)}/runs`);
    const { stdout } = await on.reprise('explain', runs[0].id);
    assert.match(stdout, /run_command[\s\S]*nobody saw its end[\s\S]*mark_done/);
  }),
};
