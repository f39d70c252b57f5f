// Runs the page's scenarios in a real browser against the real binary. It is run by the Go
// tests of e2e, of which it asks servers, and writes one line of JSON for each scenario.
//
// A file of scenarios/ exports scenarios, by name; scripts that the upstream is to play for
// them; models, which are scripts that every upstream has; and config, its servers' settings.
// at() gives a scenario other settings. Scenarios with the same settings share a server, and
// each has a session and a browser context of its own.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { launch } from './lib.mjs';
import { Stage } from './stage.mjs';

const { stage: url, executablePath, only } = JSON.parse(process.argv[2]);

const folder = new URL('scenarios/', import.meta.url);
const files = await Promise.all(readdirSync(folder).filter((f) => f.endsWith('.mjs')).sort().map((f) => import(new URL(f, folder))));
const all = files.flatMap((f) => Object.entries(f.scenarios).map(([name, run]) => ({ name, run, config: f.config ?? '', ...run.settings })));
const chosen = all.filter((s) => new RegExp(only).test(s.name));

const scripts = files.flatMap((f) => f.scripts ?? []);
assert.equal(new Set(scripts.map((s) => s.name)).size, scripts.length, 'two scripts have the same name');
const browser = await launch(executablePath);
const stage = new Stage(url, browser);
await stage.play(scripts, [...new Set(files.flatMap((f) => f.models ?? []))]);

async function perform({ name, run, ...settings }) {
  const began = Date.now();
  let error = '';
  let note;
  const on = await stage.enter(settings);
  try {
    note = await run(on);
    assert.deepEqual(on.complaints, []);
  } catch (e) {
    error = [e.stack, ...on.complaints, ...(await on.shown())].join('\n');
  }
  await on.leave();
  console.log(JSON.stringify({ name, error, note, ms: Date.now() - began }));
}

// Those that mostly wait begin first, and those that measure have the machine to themselves.
const rank = (s) => (s.waits ? 0 : 1);
const queue = chosen.filter((s) => !s.alone).sort((a, b) => rank(a) - rank(b));
const worker = async () => {
  for (let s; (s = queue.shift()); ) await perform(s);
};
await Promise.all(Array.from({ length: availableParallelism() + 1 }, worker));
for (const s of chosen.filter((s) => s.alone)) await perform(s);
await browser.close();
