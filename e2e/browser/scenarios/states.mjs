// Every screen in every state that it has: each is reached once and its accessibility is
// looked at in light and dark, on a wide and on a narrow screen.
import { accessible, after, bar, barSays, broken, button, card, complete, composer, divider, drawer, eager, reply, say, script, sessions, stall, stop, tokens, until } from '../lib.mjs';
import { at, idOf } from '../stage.mjs';

const some = tokens('some', 12);
const rich = `# Heading

A paragraph with *emphasis*, \`code\` and a [link](https://example.com/).

- one
- two
  1. three

> A quote.

| a | b |
|---|---|
| 1 | 2 |

\`\`\`go
func main() { println("a line of code that is too long for a narrow screen and has to be scrolled sideways") }
\`\`\`

---
`;

export const config = eager;
export const models = ['ok-fast', 'thinking-fast', 'redacted', 'tool-fast', 'remote-tool', 'silent', 'rate-limited', 'overloaded', 'rate-limited-3000s',
  'rate-limited-2h', 'always-503-2h', 'auth-failed', 'context-overflow', 'text-half-call', 'length', 'empty', 'tool-then-failed-inside-text-fast'];
export const scripts = [
  script('drips', '200ms', [say(tokens('drop', 500))]),
  script('some-stall', '1ms', [say(some), stall]),
  script('some-broken', '1ms', [say(some), broken]),
  script('rich', '1ms', [say(rich)]),
  script('rate-limited-wait', '1ms', [{ do: 'status', fault: { kind: 'rate_limited', wait: '25s' } }]),
  script('think-stall', '1ms', [{ do: 'think', text: some }, stall]),
];

const soon = after('60s');
const ended = async (on) => {
  await on.ask('ok-fast', 'Hello');
  await complete(on.page);
};
const writes = async (on) => {
  await on.ask('some-stall', 'Hello');
  await until(on.page, 'some-011');
};
const waits = async (on) => {
  await on.ask('overloaded', 'Hello');
  await barSays(on.page, 'Trying again in');
};
const never = (page, pattern) => page.route(pattern, () => {}); // the server has not answered yet

// The screens of a session, and what is on them.
const states = {
  'new session': [{}, async (on) => {
    await on.page.goto(`${on.base}/new`);
    await composer(on.page).waitFor();
  }],
  'list': [{}, async (on) => {
    await ended(on);
    await on.page.goto(on.base);
    await sessions(on.page).getByRole('link', { name: /Hello/ }).first().waitFor();
  }],
  'no such session': [{}, async (on) => {
    on.forgive(/status of 404/);
    await on.page.goto(`${on.base}/s/ses_nobody`);
    await on.page.getByRole('heading', { name: 'There is no such session' }).waitFor();
  }],
  'signed out': [{}, async (on) => {
    await ended(on);
    on.forgive(/status of 401/);
    await on.context.clearCookies();
    await on.page.reload();
    await on.page.getByRole('heading', { name: 'Signed out' }).waitFor();
  }],
  'nothing said yet': [{}, async (on) => {
    const { id } = await on.api('POST', '/sessions', { model: 'up/ok-fast' });
    await on.page.goto(`${on.base}/s/${id}`);
    await on.page.getByText('Nothing has been said yet').waitFor();
  }],
  'complete': [{}, ended],
  'rich text': [{}, async (on) => {
    await on.ask('rich', 'Show all');
    await complete(on.page);
  }],
  'thoughts open': [{}, async (on) => {
    await on.ask('thinking-fast', 'Think');
    await complete(on.page);
    await reply(on.page).getByText('Thought', { exact: true }).click();
  }],
  'hidden thoughts': [{}, async (on) => {
    await on.ask('redacted', 'Think');
    await complete(on.page);
  }],
  'tool call open': [{}, async (on) => {
    await on.ask('tool-fast', 'What time is it?');
    await complete(on.page);
    await reply(on.page).locator('.call summary').click();
  }],
  'tool of the provider': [{}, async (on) => {
    await on.ask('remote-tool', 'Search');
    await complete(on.page);
  }],
  'empty reply': [{}, async (on) => {
    await on.ask('empty', 'Say nothing');
    await complete(on.page);
  }],
  'queued': [{ config: 'limits: {concurrent_runs: 0}' }, async (on) => {
    await on.ask('ok-fast', 'Hello');
    await on.page.getByText('Queued. It starts').waitFor();
  }],
  'connecting': [{}, async (on) => {
    await on.ask('silent', 'Hello');
    await on.page.getByText('Waiting for silent').waitFor();
  }],
  'waiting for the next attempt': [{}, async (on) => {
    await on.ask('rate-limited-wait', 'Hello');
    await on.page.getByRole('timer').waitFor();
  }],
  'holding': [{ config: 'recovery: {hold: whole}' }, async (on) => {
    await on.ask('drips', 'Hello');
    await on.page.getByText('Receiving, not shown').waitFor();
  }],
  'thinking': [{}, async (on) => {
    await on.ask('think-stall', 'Hello');
    await reply(on.page).getByText('Thinking…').waitFor();
  }],
  'writing': [{}, writes],
  'writing, with a draft and a queue': [{}, async (on) => {
    await writes(on);
    for (const text of ['and then this', 'and that']) {
      await composer(on.page).fill(text);
      await button(on.page, 'Queue').click();
      await on.page.getByRole('region', { name: 'Queued messages' }).getByText(text).waitFor();
    }
    await button(on.page, 'Edit queued message 2').click();
    await on.page.getByRole('textbox', { name: 'Queued message 2' }).waitFor();
    await composer(on.page).fill('a draft');
  }],
  'a queue that waits': [{}, async (on) => {
    await writes(on);
    await composer(on.page).fill('and then this');
    await button(on.page, 'Queue').click();
    await stop(on.page).click();
    await on.page.getByText('The queue waits').waitFor();
  }],
  'stopping': [{}, async (on) => {
    await writes(on);
    await never(on.page, '**/cancel');
    await stop(on.page).click();
    await button(on.page, 'Stopping…').waitFor();
  }],
  'stop not delivered': [{}, async (on) => {
    await writes(on);
    on.forgiveNetwork();
    await on.page.route('**/cancel', (r) => r.abort());
    await stop(on.page).click();
    await on.page.getByText('Stop was not delivered').first().waitFor();
  }],
  'cancelled': [{}, async (on) => {
    await writes(on);
    await stop(on.page).click();
    await divider(on.page).waitFor();
  }],
  'interrupted': [{}, async (on) => {
    await on.ask('some-broken', 'Hello');
    await card(on.page).getByText('Details').click();
  }],
  'call cut off': [{}, async (on) => {
    await on.ask('text-half-call', 'Hello');
    await card(on.page).waitFor();
  }],
  'interrupted behind a tool': [{}, async (on) => {
    await on.ask('tool-then-failed-inside-text-fast', 'Hello');
    await card(on.page).waitFor();
  }],
  'cut at the limit': [{}, async (on) => {
    await on.ask('length', 'Hello');
    await complete(on.page);
  }],
  'key refused': [{}, async (on) => {
    await on.ask('auth-failed', 'Hello');
    await card(on.page).waitFor();
  }],
  'no longer fits': [{}, async (on) => {
    await on.ask('context-overflow', 'Hello');
    await card(on.page).waitFor();
  }],
  'superseded reply shown': [{}, async (on) => {
    await ended(on);
    await button(on.page, 'Regenerate').click();
    await button(on.page, 'Previous version').click();
    await on.page.getByRole('region', { name: 'Version 1' }).waitFor();
  }],
  'regenerate asks': [{}, async (on) => {
    await ended(on);
    await composer(on.page).fill('And again');
    await composer(on.page).press('Enter');
    await on.page.getByRole('article', { name: /^Reply/ }).nth(1).waitFor();
    await complete(on.page);
    await button(on.page, 'Regenerate').first().click();
    await on.page.getByRole('dialog').waitFor();
  }],
  'attempts': [{}, async (on) => {
    await on.ask('some-broken', 'Hello');
    await card(on.page).getByRole('button', { name: 'Attempts' }).click();
    await drawer(on.page).locator('summary').click();
  }],
  'armed': [{ config: soon }, waits],
  'armed, with a draft': [{ config: soon }, async (on) => {
    await waits(on);
    await composer(on.page).fill('Something else');
    await button(on.page, 'Send and cancel retry').waitFor();
  }],
  'scheduled': [{ config: soon }, async (on) => {
    await on.ask('rate-limited-3000s', 'Hello');
    await barSays(on.page, 'Retry after');
  }],
  'dispatching': [{ config: soon }, async (on) => {
    await waits(on);
    await never(on.page, '**/retry/now');
    await button(on.page, 'Try now').click();
    await barSays(on.page, 'Starting attempt');
  }],
  'retry cancelled': [{ config: soon }, async (on) => {
    await waits(on);
    await button(on.page, 'Cancel retry').click();
    await barSays(on.page, 'Retry cancelled');
  }],
  'exhausted': [{ config: 'recovery: {tier1: {attempts: 1}, tier2: {max_attempts: 1}}' }, async (on) => {
    await on.ask('overloaded', 'Hello');
    await barSays(on.page, 'Stopped after 1 attempt');
  }],
  'plan limit': [{ config: soon }, async (on) => {
    await on.ask('rate-limited-2h', 'Hello');
    await barSays(on.page, 'The plan limit is used up');
  }],
  'far reset': [{ config: soon }, async (on) => {
    await on.ask('always-503-2h', 'Hello');
    await barSays(on.page, 'asked to wait until');
  }],
  'nothing waits': [{ own: true }, async (on) => {
    await on.page.goto(`${on.base}/waiting`);
    await on.page.getByText('No retry waits').waitFor();
  }],
  'waiting': [{ own: true, config: after('1s') }, async (on) => {
    await on.ask('overloaded', 'Nobody looks');
    const held = idOf(on.page);
    await on.ask('rate-limited-3000s', 'Later');
    await on.page.goto(`${on.base}/waiting`);
    const list = on.page.getByRole('main');
    await list.getByRole('link', { name: /Later.*retry after/s }).waitFor();
    await list.getByRole('link', { name: /waits for you to look/ }).waitFor();
  }],
  'connection lost': [{ wire: true }, async (on) => {
    await ended(on);
    on.forgiveNetwork();
    on.wire.cut();
    await on.page.getByText('Connection lost.').waitFor();
  }],
};

export const scenarios = Object.fromEntries(
  Object.entries(states).map(([state, [settings, reach]]) => [
    `axe: ${state}`,
    at(settings, async (on) => {
      await reach(on);
      await accessible(on.page, state);
    }),
  ]),
);
