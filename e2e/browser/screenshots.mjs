// Takes the pictures of docs/images from the real binary, in a browser:
//
//	node e2e/browser/screenshots.mjs
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ask, complete, composer, launch, reply, until } from './lib.mjs';

const root = new URL('../..', import.meta.url).pathname;
const images = join(root, 'docs/images');
const home = mkdtempSync(join(tmpdir(), 'reprise-pictures-'));

const answer = `A reply can be **repeated** only while nobody has seen any of it. So two questions are asked about every failure, apart from each other:

| Question | Answered by |
|---|---|
| Could trying again help? | the failure: its code, type and status |
| Is it safe to try again? | what has become observable until then |

Both must say yes. The check is the last thing before the request leaves:

\`\`\`go
attempt, err := gate.Open(ctx, previous, provider, request)
if errors.Is(err, replay.ErrUnsafe) {
	return stop(failure) // keep what was shown
}
\`\`\`

That is why a reply that broke off in the middle stays where it is, marked, and is never written a second time by itself. The next step is yours:

1. Regenerate, and the old reply stays readable.
2. Keep it as it is.
`;
const most = answer.slice(0, answer.indexOf('marked, and'));
const some = answer.slice(0, answer.indexOf('| Is it safe'));
const scripts = [
  { name: 'alpha-large', pause: '4ms', scenes: [[[{ do: 'say', text: most }, { do: 'stall' }]]] },
  { name: 'beta-large', pause: '1ms', scenes: [[[{ do: 'say', text: some }, { do: 'failed', fault: { kind: 'upstream_stream_error' } }]]] },
  { name: 'gamma-large', scenes: [[[{ do: 'status', fault: { kind: 'overloaded' } }]]] },
  { name: 'delta-large', scenes: [[[{ do: 'status', fault: { kind: 'rate_limited', wait: '50m', hint: 'seconds' } }]]] },
  { name: 'epsilon-large', pause: '1ms', scenes: [[[{ do: 'say', text: 'The list starts a minute too late. I would change one line.' },
    { do: 'call', name: 'edit_file', arguments: JSON.stringify({ path: 'schedule.txt', old_text: 'start 08:01', new_text: 'start 08:00' }) }]],
    [[{ do: 'say', text: 'The list starts on the hour now. Shall it be sent to the team?' },
      { do: 'call', name: 'run_command', arguments: JSON.stringify({ command: 'mail -s "New schedule" team@example.com < schedule.txt' }) }]]] },
  { name: 'alpha-mini', pause: '1ms', scenes: [[[{ do: 'say', text: 'Done.' }]]] },
];
writeFileSync(join(home, 'scripts.yaml'), JSON.stringify(scripts));

const work = join(home, 'work');
mkdirSync(work);
writeFileSync(join(work, 'schedule.txt'), 'list\nstart 08:01\nend 17:00\n');

const bar = (page, text) => page.getByText(text).last().waitFor();

const binary = join(home, 'reprise');
execFileSync('go', ['build', '-o', binary, './cmd/reprise'], { cwd: root, stdio: 'inherit' });
const server = spawn(binary, ['serve', '--listen', '127.0.0.1:0', '--set', `rehearsal.scripts=${join(home, 'scripts.yaml')}`,
  '--set', `tools.workspace=${work}`, '--set', 'recovery.tier1.base=10ms', '--set', 'recovery.tier2.base=60s'], {
  env: { HOME: home, PATH: process.env.PATH },
  stdio: ['ignore', 'pipe', 'inherit'],
});
const ended = new Promise((done) => server.once('exit', done));
let browser;
try {
  const { value: link } = await createInterface(server.stdout)[Symbol.asyncIterator]().next();
  const base = new URL(link).origin;
  browser = await launch('/usr/bin/chromium');
  const page = await browser.newPage({ colorScheme: 'light', viewport: { width: 1280, height: 800 } });
  const picture = async (name) => {
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: join(images, `${name}.png`), animations: 'disabled' });
  };
  mkdirSync(images, { recursive: true });
  await page.goto(link);
  await composer(page).waitFor();
  for (const text of ['Name the tests of the parser', 'Translate the release notes', 'Why is the build slow?']) {
    await ask(page, base, 'rehearsal/alpha-mini', text);
    await complete(page);
  }
  await ask(page, base, 'rehearsal/beta-large', 'When may a failed reply be repeated?');
  await reply(page).locator('.failure').waitFor();
  await picture('interrupted');
  await ask(page, base, 'rehearsal/alpha-large', 'Explain how retries are decided');
  await until(page, 'stays where it is');
  await picture('streaming');
  await ask(page, base, 'rehearsal/epsilon-large', 'Why does the list start late?');
  await page.getByRole('button', { name: 'Approve' }).click();
  await reply(page).locator('.asks').filter({ hasText: 'run_command' }).waitFor();
  await reply(page).locator('summary').first().click();
  await page.getByRole('button', { name: 'Approve' }).scrollIntoViewIfNeeded();
  await picture('asks');
  await ask(page, base, 'rehearsal/delta-large', 'Import the customers');
  await bar(page, /Retry after/);
  await picture('scheduled');
  await ask(page, base, 'rehearsal/gamma-large', 'Write the nightly report');
  await bar(page, /Trying again/);
  await picture('armed');
  await page.getByRole('button', { name: 'Attempts' }).first().click();
  await page.getByRole('region', { name: 'Attempts' }).getByText(/Safe to repeat/).first().waitFor();
  await picture('attempts');
  await page.keyboard.press('Escape');
  await composer(page).focus();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: 'dark' });
  await picture('phone');
} finally {
  await browser?.close();
  server.kill('SIGTERM');
  await ended;
  rmSync(home, { recursive: true });
}
