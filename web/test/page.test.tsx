import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/preact';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { setDevice } from '../src/device';
import { Store } from '../src/store';
import type { Failure, Recovery, ServerEvent } from '../src/types';
import { Root } from '../src/ui/app';
import { late, prose } from '../src/ui/later';
import { attempt, effect, event, message, output, preview, reply, run, schedule, session, snapshot, text } from './make';

// The whole page over a server that is only its answers.

interface Call {
  method: string;
  path: string;
  body: unknown;
  key: string | null;
}

let calls: Call[];
let answers: Record<string, [number, unknown]>;
let arrivals: Record<string, Promise<void>>; // when an answer comes that is not there at once
let store: Store;

beforeAll(() => Promise.all([prose.get(), late.get()]));

beforeEach(() => {
  localStorage.clear();
  calls = [];
  arrivals = {};
  answers = { 'GET /api/v1/models': [200, { models: [], chains: [] }] };
  vi.stubGlobal('fetch', async (path: string, init: RequestInit = {}) => {
    if (path.startsWith('/api/v1/events')) return new Promise(() => {});
    const method = init.method ?? 'GET';
    calls.push({ method, path, body: init.body ? JSON.parse(String(init.body)) : undefined, key: new Headers(init.headers).get('Idempotency-Key') });
    await arrivals[`${method} ${path}`];
    const [status, body] = answers[`${method} ${path}`] ?? [404, { error: { code: 'not_found', message: `no ${method} ${path}` } }];
    return new Response(body === undefined ? null : JSON.stringify(body), { status });
  });
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

async function open(...events: ServerEvent[]): Promise<void> {
  history.replaceState(null, '', '/s/ses_1');
  store = new Store();
  render(<Root store={store} />);
  await act(() => store.start());
  await tell(...events);
}

/** Delivers events and waits for the repaint that they cause. */
async function tell(...events: ServerEvent[]): Promise<void> {
  await act(async () => {
    const painted = new Promise<void>((done) => {
      const stop = store.subscribe(() => (stop(), done()));
    });
    store.receive(events);
    await painted;
  });
}

/** Lets the answers that are on their way arrive. */
const settle = () => new Promise<void>((done) => setTimeout(done));

const click = (name: string | RegExp) =>
  act(async () => {
    fireEvent.click(screen.getByRole('button', { name }));
    await settle();
  });
const sent = (method: string, path: RegExp) => calls.filter((c) => c.method === method && path.test(c.path));

const failure: Failure = { retryable: true, retry_class: 'overloaded', message: 'Overloaded', model: 'alpha/large', status: 529 };
const shown: Recovery = { auto: false, verb: '', replay_safe: false, evidence: ['text_shown'], reason: 'not_safe', choices: ['regenerate', 'resume', 'keep'] };

test('a reply streams, and its end keeps the same nodes', async () => {
  await open(snapshot(), event('run', { run: run() }), output(1, [text('First **bold**.\n\nSec')]));
  const first = screen.getByText('bold').closest('p');
  await tell(output(2, [text('ond.\n')]));
  await tell(event('message', { message: reply('First **bold**.\n\nSecond.\n') }), event('run', { run: run({ state: 'succeeded' }) }));
  expect(screen.getByText('bold').closest('p')).toBe(first);
  expect(screen.getByText('Second.')).toBeTruthy();
  expect(screen.getByRole('status').textContent).toBe('Reply complete, 2 paragraphs');
});

test('the log is not live', async () => {
  await open(snapshot());
  expect(screen.getByRole('log').getAttribute('aria-live')).toBe('off');
  expect(screen.getAllByRole('status').length).toBe(1);
  expect(screen.getAllByRole('alert').length).toBe(1);
});

test('a reply without content says so, and can be regenerated', async () => {
  await open(snapshot({ session: session({ last_run: run({ state: 'succeeded' }) }), messages: [message(), reply('', { parts: [] })] }));
  expect(screen.getByText('The reply is empty.')).toBeTruthy();
  expect(screen.getByRole('button', { name: 'Regenerate' })).toBeTruthy();
});

test('a failed reply keeps its text and shows both verdicts apart', async () => {
  await open(
    snapshot({ messages: [message(), reply('Part of it', { interrupted: 'stream_interrupted', failure, recovery: shown })] }),
    event('run', { run: run({ state: 'failed', failure, recovery: shown }) }),
  );
  expect(screen.getByText('Part of it')).toBeTruthy();
  const card = within(screen.getByRole('group', { name: 'What went wrong' }));
  expect(card.getByText('Worth retrying:').parentElement!.textContent).toBe('Worth retrying:yes, overloaded');
  expect(card.getByText('Safe to repeat:').parentElement!.textContent).toBe('Safe to repeat:no, text was shown');
  answers['POST /api/v1/sessions/ses_1/messages/msg_1/regenerate'] = [202, {}];
  await click('Regenerate');
  expect(sent('POST', /regenerate$/)[0]!.body).toEqual({ revision: store.session()!.revision, confirm_effects: false });
});

test('a cancelled run is never shown as failed', async () => {
  await open(snapshot(), event('run', { run: run({ state: 'cancelled', failure, recovery: shown }) }));
  expect(screen.queryByRole('group', { name: 'What went wrong' })).toBeNull();
  expect(screen.getByText('Cancelled').parentElement!.textContent).toContain('you stopped it');
});

test('stop says so until the server has confirmed it', async () => {
  await open(snapshot(), event('run', { run: run() }));
  answers['POST /api/v1/sessions/ses_1/runs/run_1/cancel'] = [202, run({ cancel_requested: true })];
  await click('Stop');
  await tell();
  await click('Stopping…');
  expect(sent('POST', /cancel$/).length).toBe(1);
  await tell(event('run', { run: run({ state: 'cancelled' }) }));
  expect(screen.queryByRole('button', { name: /Stop/ })).toBeNull();
});

test('a back-off counts down, with nothing of the failed attempt in the reply', async () => {
  const next_at = new Date(Date.now() + 5000).toISOString();
  const decision = { ...attempt().decision!, next_at };
  const s = snapshot();
  s.snapshot!.system.now = Date.now();
  await open(s, event('run', { run: run() }), event('attempt', { attempt: attempt({ decision }) }));
  expect(screen.getByRole('timer').textContent).toMatch(/^[45]\.\d s$/);
  expect(screen.getByText(/Nothing had been shown/).textContent).toContain('large: overloaded (529)');
  expect(screen.queryByRole('article', { name: /Reply/ })).toBeNull();
});

test('from ten seconds of silence the head says so, and when the run gives up', async () => {
  answers['GET /api/v1/models'] = [200, { models: [{ name: 'alpha/large', provider: 'alpha', dialect: 'chat', idle_ms: 120_000 }], chains: [] }];
  await open(snapshot(), event('run', { run: run() }), output(1, [text('So far')]));
  expect(screen.queryByText(/silent/)).toBeNull();
  const later = Date.now() + 18_400;
  vi.spyOn(Date, 'now').mockReturnValue(later);
  expect((await screen.findByText(/silent/)).textContent).toBe(' · silent 18 s, gives up at 120 s');
  vi.mocked(Date.now).mockRestore();
});

test('what is sent keeps its key until it is delivered', async () => {
  await open(snapshot());
  const box = screen.getByLabelText('Message') as HTMLTextAreaElement;
  const path = '/api/v1/sessions/ses_1/messages';
  answers[`POST ${path}`] = [503, { error: { code: 'unavailable', message: 'Shutting down.' } }];
  await act(async () => void fireEvent.input(box, { target: { value: 'Hello' } }));
  await click('Send');
  await tell();
  expect(box.value).toBe('Hello');
  expect(screen.getByText('Shutting down.', { selector: '.refused' })).toBeTruthy();
  answers[`POST ${path}`] = [202, { message_id: 'm', run_id: 'r', state: 'queued' }];
  await click('Send');
  const [first, second] = sent('POST', /messages$/);
  expect(first!.key).toBeTruthy();
  expect(second!.key).toBe(first!.key);
  expect(second!.body).toEqual({ parts: [{ kind: 'text', text: 'Hello' }] });
  expect(box.value).toBe('');
});

test('a draft survives a reload', async () => {
  await open(snapshot());
  await act(async () => void fireEvent.input(screen.getByLabelText('Message'), { target: { value: 'unsent' } }));
  cleanup();
  await open(snapshot());
  expect((screen.getByLabelText('Message') as HTMLTextAreaElement).value).toBe('unsent');
});

test('effects are listed before a regenerate, and an unknown one must be ticked', async () => {
  await open(snapshot({ messages: [message(), reply('done')] }), event('run', { run: run({ state: 'succeeded' }) }));
  const effects = [effect({ state: 'unknown' })];
  answers['POST /api/v1/sessions/ses_1/messages/msg_1/regenerate'] = [409, { error: { code: 'effects_not_confirmed', message: 'x', details: { effects } } }];
  answers['GET /api/v1/sessions/ses_1/messages/msg_1/regenerate'] = [200, preview({ revision: 9, effects })];
  await click('Regenerate');
  const dialog = within(await screen.findByRole('dialog'));
  expect(dialog.getByText('send_mail').parentElement!.textContent).toContain('outcome unknown');
  const go = dialog.getByRole('button', { name: 'Regenerate' }) as HTMLButtonElement;
  expect(go.disabled).toBe(true);
  await act(async () => void fireEvent.click(dialog.getByRole('checkbox')));
  await act(async () => void fireEvent.click(go));
  expect(sent('POST', /regenerate$/).at(-1)!.body).toEqual({ revision: 9, confirm_effects: true });
});

const told = () => {
  answers['GET /api/v1/sessions/ses_1/messages?superseded=true'] = [200, { messages: [message(), reply('the first', { superseded_by: 'run_2', superseded_at: 5 }), newer] }];
  answers['GET /api/v1/sessions/ses_1/runs'] = [200, { runs: [run({ state: 'succeeded' }), run({ id: 'run_2', state: 'succeeded', trigger: 'regenerate' })] }];
};
const newer = reply('the second', { id: 'msg_3', position: 3, run_id: 'run_2' });

test('what was superseded before the page came is a version of the reply', async () => {
  told();
  await open(snapshot({ messages: [message(), newer], session: session({ last_run: run({ id: 'run_2', state: 'succeeded', trigger: 'regenerate' }) }) }));
  await screen.findByRole('button', { name: 'Version 2 of 2' });
  await click('Previous version');
  await tell();
  expect(screen.getByText('the first')).toBeTruthy();
  expect(screen.queryByText('the second')).toBeNull();
  expect(screen.getByRole('region', { name: 'Version 1' }).textContent).toMatch(/by regenerate · read only/);
  expect(location.search).toBe('?v=1&m=msg_1');
  expect(screen.getByRole('status').textContent).toBe('Version 1 of 2, superseded');
  answers['POST /api/v1/sessions/ses_1/messages'] = [202, {}];
  await act(async () => void fireEvent.input(screen.getByLabelText('Message'), { target: { value: 'Next' } }));
  await click('Send');
  await tell();
  expect(screen.getByText('the second')).toBeTruthy();
  expect(location.search).toBe('');
});

test('a question is brought up to date with the session, and says so', async () => {
  const at = '/api/v1/sessions/ses_1/messages/msg_1/regenerate';
  const both = [message(), reply('one'), message({ id: 'msg_3', position: 3 })];
  await open(snapshot({ messages: both }), event('run', { run: run({ state: 'succeeded' }) }));
  answers[`GET ${at}`] = [200, preview({ revision: store.session()!.revision, later: 1, superseded: 2 })];
  await click('Regenerate');
  const dialog = within(await screen.findByRole('dialog'));
  expect(dialog.getByText('1 reply · 1 later message of yours')).toBeTruthy();
  expect(dialog.queryByText(/The session has changed/)).toBeNull();
  const next = event('message', { message: message({ id: 'msg_4', position: 4 }) });
  answers[`GET ${at}`] = [200, preview({ revision: next.revision, later: 2, superseded: 3 })];
  await tell(next);
  await act(settle);
  await tell();
  expect(dialog.getByText('1 reply · 2 later messages of yours')).toBeTruthy();
  expect(dialog.getByText(/The session has changed/)).toBeTruthy();
  // What the session became between the question and the answer is asked about again.
  answers[`POST ${at}`] = [409, { error: { code: 'stale_revision', message: 'x' } }];
  answers[`GET ${at}`] = [200, preview({ revision: next.revision! + 1, later: 2, superseded: 3, effects: [effect()] })];
  await act(async () => void fireEvent.click(dialog.getByRole('button', { name: 'Regenerate' })));
  await act(settle);
  await tell();
  expect(dialog.getByText('send_mail')).toBeTruthy();
  answers[`POST ${at}`] = [202, { message_id: 'msg_1', run_id: 'run_2', state: 'queued', superseded: 3 }];
  await act(async () => void fireEvent.click(dialog.getByRole('button', { name: 'Regenerate' })));
  await act(settle);
  await tell(event('run', { run: run({ id: 'run_2', state: 'queued', trigger: 'regenerate' }) }));
  expect(screen.queryByRole('dialog')).toBeNull();
  expect(sent('POST', /regenerate$/).map((c) => c.body)).toEqual([
    { revision: next.revision, confirm_effects: false },
    { revision: next.revision! + 1, confirm_effects: true },
  ]);
  expect(screen.getByText('Superseded 3 messages, kept readable.')).toBeTruthy();
});

test('an effect whose outcome nobody knows is settled before the run goes on', async () => {
  const recovery = { ...shown, evidence: ['tool_started'], choices: ['regenerate', 'resume', 'keep'] };
  const cut = { session_id: 'ses_1', run_id: 'run_1', step: 0, call_id: 'c', name: 'send_mail', arguments: '{"to":"team"}', state: 'unknown', effect: true, started_at: 1 };
  await open(
    snapshot({ messages: [message(), reply('a step', { failure, recovery })], tool_calls: [cut] }),
    event('run', { run: run({ state: 'failed', failure, recovery, steps: 1 }) }),
  );
  expect(screen.getByText('Not repeated by itself: send_mail may have run, its outcome is unknown.')).toBeTruthy();
  await click('Review effects');
  const dialog = within(await screen.findByRole('dialog'));
  const go = dialog.getByRole('button', { name: 'Go on after the last step' }) as HTMLButtonElement;
  expect(go.disabled).toBe(true);
  answers['POST /api/v1/sessions/ses_1/tool-calls/c/resolve'] = [200, {}];
  await act(async () => void fireEvent.click(dialog.getByRole('button', { name: 'It was done' })));
  expect(sent('POST', /resolve$/)[0]!.body).toEqual({ action: 'mark_done' });
  await tell(event('tool_call', { tool_call: { ...cut, state: 'ended' } }));
  expect(go.disabled).toBe(false);
  answers['POST /api/v1/sessions/ses_1/runs/run_1/resume'] = [202, {}];
  await act(async () => void fireEvent.click(go));
  expect(sent('POST', /resume$/).length).toBe(1);
});

test('a call that is asked about shows what it would do, and is answered once', async () => {
  const asked = {
    session_id: 'ses_1', run_id: 'run_1', step: 0, call_id: 'c', name: 'write_file', arguments: '{"path":"a.txt"}', state: 'asked', effect: true, started_at: 0,
    approval: { asked_at: 1, expires_at: 600_000 },
  };
  const call = { kind: 'tool_call', call_id: 'c', name: 'write_file', arguments: '{"path":"a.txt"}' };
  await open(snapshot({ messages: [message(), reply('', { parts: [call] })], tool_calls: [asked] }), event('run', { run: run({ state: 'running' }) }));
  const card = screen.getByText('asks you').closest<HTMLElement>('.call')!;
  expect(card.querySelector('details')!.open).toBe(true);
  expect(within(card).getByLabelText('Input of write_file').textContent).toBe('{"path":"a.txt"}');
  answers['POST /api/v1/sessions/ses_1/tool-calls/c/deny'] = [409, { error: { code: 'conflict', message: 'It was approved in another tab.', details: null } }];
  await act(async () => void fireEvent.input(within(card).getByRole('textbox'), { target: { value: 'not there' } }));
  await click('Deny');
  expect(sent('POST', /deny$/)[0]!.body).toEqual({ reason: 'not there' });
  expect((await screen.findAllByText('It was approved in another tab.')).length).toBeGreaterThan(0);
  answers['POST /api/v1/sessions/ses_1/tool-calls/c/approve'] = [200, {}];
  await click('Approve');
  expect(sent('POST', /approve$/).length).toBe(1);
  await tell(event('tool_call', { tool_call: { ...asked, state: 'started', started_at: 2 } }));
  expect(screen.queryByRole('button', { name: 'Approve' })).toBeNull();
  await tell(event('tool_progress', { tool_progress: { run_id: 'run_1', step: 0, call_id: 'c', done: 3, total: 10 } }));
  expect((screen.getByRole('progressbar') as HTMLProgressElement).value).toBe(3);
  const result = { kind: 'tool_result', call_id: 'c', content: [{ kind: 'text', media_type: 'text/x-diff', text: '--- a.txt\n+++ a.txt\n-old\n+new' }] };
  await tell(event('tool_call', { tool_call: { ...asked, state: 'ended', started_at: 2, ended_at: 3, result } }));
  expect(screen.queryByRole('progressbar')).toBeNull();
  expect([...card.querySelectorAll('.added, .removed')].map((e) => e.textContent)).toEqual(['-old\n', '+new\n']);
});

test('a subagent is a branch of its session: how it stands, the way there and back, and what it asks', async () => {
  const parent = { session_id: 'ses_1', root: 'ses_1', run_id: 'run_1', step: 0, call_id: 'c', depth: 1 };
  const child = session({ id: 'ses_2', title: 'Look it up', parent, state: 'running', last_run: run({ id: 'run_9', session_id: 'ses_2' }) });
  const call = { kind: 'tool_call', call_id: 'c', name: 'delegate', arguments: '{"task":"Look"}' };
  await open(snapshot({ messages: [message(), reply('', { parts: [call] })], children: [child] }), event('run', { run: run({ state: 'running' }) }));
  const branch = screen.getByRole('link', { name: 'Subagent: Look it up' }).parentElement!;
  expect(branch.textContent).toContain('running');
  expect(screen.queryByRole('link', { name: /^Look it up/ })).toBeNull();
  await tell({ ...event('session', { session: { ...child, asks: 1, revision: 7 } }), session_id: 'ses_2', revision: 7 });
  expect(branch.textContent).toContain('needs you');
});

test('the limit of the session is raised where it stopped a run', async () => {
  const ours: Failure = { retryable: false, retry_class: 'spend_limit_exceeded', message: 'The session has a limit of $5.00.', code: 'session_limit' };
  const recovery = { ...retried, auto: false, reason: 'not_eligible' };
  await open(
    snapshot({ messages: [message(), reply('', { parts: [], failure: ours, recovery })] }),
    event('run', { run: run({ state: 'failed', failure: ours, recovery }) }),
  );
  await click('Raise limit');
  const dialog = within(await screen.findByRole('dialog'));
  answers['PATCH /api/v1/sessions/ses_1'] = [200, {}];
  await act(async () => void fireEvent.input(dialog.getByRole('textbox'), { target: { value: '7.5' } }));
  await act(async () => void fireEvent.click(dialog.getByRole('button', { name: 'Set the limit' })));
  expect(sent('PATCH', /ses_1$/)[0]!.body).toEqual({ settings: { spend_limit: 7_500_000_000 } });
});

test('the queue is edited, emptied and reordered', async () => {
  const pending = [1, 2].map((n) => ({ message_id: `msg_${n}0`, run_id: `run_${n}0`, session_id: 'ses_1', rank: n, parts: [{ kind: 'text', text: `later ${n}` }], actor: 'o', created_at: 1 }));
  await open(snapshot({ pending }), event('run', { run: run() }));
  const at = '/api/v1/sessions/ses_1/pending/msg_20';
  Object.assign(answers, { [`PATCH ${at}`]: [200, {}], [`DELETE ${at}`]: [204, undefined], [`POST ${at}/send-now`]: [202, {}] });
  await click('Edit queued message 2');
  const edited = await screen.findByLabelText('Queued message 2');
  await act(async () => void fireEvent.input(edited, { target: { value: 'changed' } }));
  await click('Save');
  await click('Send queued message 2 next');
  await click('Remove queued message 2');
  expect(calls.slice(1).map((c) => `${c.method} ${c.path}`)).toEqual([`PATCH ${at}`, `POST ${at}/send-now`, `DELETE ${at}`]);
  expect(calls[1]!.body).toEqual({ parts: [{ kind: 'text', text: 'changed' }] });
});

test('Escape stops a run; with a draft in the box the first press only warns', async () => {
  await open(snapshot(), event('run', { run: run() }));
  answers['POST /api/v1/sessions/ses_1/runs/run_1/cancel'] = [202, run({ cancel_requested: true })];
  const box = screen.getByLabelText('Message');
  await act(async () => void fireEvent.input(box, { target: { value: 'draft' } }));
  await act(async () => void fireEvent.keyDown(box, { key: 'Escape', bubbles: true }));
  expect(sent('POST', /cancel$/).length).toBe(0);
  expect(screen.getByText('Press Esc again to stop', { selector: '.hint' })).toBeTruthy();
  await act(async () => void fireEvent.keyDown(box, { key: 'Escape', bubbles: true }));
  expect(sent('POST', /cancel$/).length).toBe(1);
});

const drawer = () => screen.queryByRole('region', { name: 'Attempts' });
const failedOnce = run({ state: 'failed', spend: { amount: 20_000_000, at_least: true } });
const retriedRun = run({ id: 'run_2', state: 'succeeded', trigger: 'retry', actor: 'timer', queued_at: 2, spend: { amount: 90_000_000, at_least: false } });
const known = (amount: number) => ({ kind: 'known', amount }) as const;

function answerAttempts(): void {
  answers['GET /api/v1/sessions/ses_1/messages?superseded=true'] = [200, { messages: [message(), reply('', { parts: [], superseded_by: 'run_2' })] }];
  answers['GET /api/v1/sessions/ses_1/runs'] = [200, { runs: [failedOnce, retriedRun] }];
  answers['GET /api/v1/sessions/ses_1/runs/run_1/attempts'] = [
    200, { attempts: [attempt({ cost: { kind: 'estimated', amount: 0 } }), attempt({ id: 'att_2', number: 2, after: 'att_1', cost: { kind: 'estimated', amount: 20_000_000 } })] },
  ];
  answers['GET /api/v1/sessions/ses_1/runs/run_2/attempts'] = [
    200, { attempts: [attempt({ id: 'att_3', run_id: 'run_2', opened_at: 60_000, ok: true, failure: undefined, decision: undefined, cost: known(90_000_000) })] },
  ];
}

const afterRetry = () => snapshot({ session: session({ last_run: retriedRun }), messages: [message(), reply('done', { id: 'msg_3', position: 3, run_id: 'run_2' })] });

test('the attempts at a reply are those of every run that came to it, and add up to its figure', async () => {
  answerAttempts();
  await open(afterRetry());
  await act(settle);
  const figure = document.querySelector('.cost')!.textContent;
  expect(figure).toBe('≥ $0.11');
  await click('Attempts');
  expect(location.pathname).toBe('/s/ses_1/attempts/msg_1');
  const shown = within(await screen.findByRole('region', { name: 'Attempts' }));
  await shown.findAllByRole('listitem');
  expect(shown.getAllByRole('listitem').map((li) => li.querySelector('h3')!.textContent)).toEqual(['1first · large', '2retry · large', '3timed retry · large']);
  expect(shown.getAllByRole('listitem')[2]!.textContent).toContain('after a wait of 58 s');
  expect(shown.getAllByText('Repeated after a wait')[0]!.parentElement!.textContent).toContain('the same request is sent again');
  expect(shown.getByText(/All attempts cost/).textContent).toBe(`All attempts cost ${figure}`);
});

test('a first request that is still going has not failed to report its cost', async () => {
  const spend = { amount: 0, at_least: true };
  await open(snapshot({ session: session({ state: 'running', spend, last_run: run() }) }));
  expect(document.querySelector('.head-spend')).toBeNull();
  await tell(event('session', { session: session({ revision: 2, spend, last_run: run({ state: 'failed' }) }) }));
  expect(document.querySelector('.head-spend')!.textContent).toContain('cost not reported');
});

test('a link to the attempts opens them; closing leaves the session, going back closes what was opened', async () => {
  answerAttempts();
  history.replaceState(null, '', '/s/ses_1/attempts/msg_1');
  store = new Store();
  render(<Root store={store} />);
  await act(() => store.start());
  await tell(afterRetry());
  await act(settle);
  expect((await within(drawer()!).findAllByRole('listitem')).length).toBe(3);
  const escape = () => act(async () => (fireEvent.keyDown(document.body, { key: 'Escape', bubbles: true }), settle()));
  await escape();
  await tell();
  expect([location.pathname, drawer()]).toEqual(['/s/ses_1', null]);
  await click('Attempts');
  await tell();
  expect([location.pathname, drawer() !== null]).toEqual(['/s/ses_1/attempts/msg_1', true]);
  const back = vi.spyOn(history, 'back').mockImplementation(() => {});
  await escape();
  await escape(); // the first has closed it already
  expect(back).toHaveBeenCalledTimes(1);
  back.mockRestore();
  history.replaceState(null, '', '/s/ses_1');
  await act(async () => (window.dispatchEvent(new PopStateEvent('popstate')), settle()));
  await tell();
  expect(drawer()).toBeNull();
  expect(calls.filter((c) => c.path.endsWith('/runs')).length).toBe(1);
});

test('a first visit says that replies are rehearsed, and offers failures to see', async () => {
  answers['GET /api/v1/models'] = [200, { models: [{ name: 'rehearsal/drip', provider: 'rehearsal', dialect: 'chat' }], chains: [] }];
  history.replaceState(null, '', '/');
  store = new Store();
  render(<Root store={store} />);
  await act(() => store.start());
  await tell(snapshot({ sessions: [], session: undefined, system: { version: '1', running: 0, queued: 0, concurrent_runs: 1, now: 0, rehearsal: true, spend: { day: { amount: 0, at_least: false } } } }));
  expect(screen.getByText(/No provider key is configured yet/)).toBeTruthy();
  answers['POST /api/v1/sessions'] = [201, session({ id: 'ses_7' })];
  answers['POST /api/v1/sessions/ses_7/messages'] = [202, {}];
  await screen.findByRole('button', { name: /A slow reply/ });
  await click(/A slow reply/);
  expect(sent('POST', /sessions$/)[0]!.body).toEqual({ model: 'rehearsal/drip' });
  expect(location.pathname).toBe('/s/ses_7');
});

test('a first message whose answer was lost makes one session', async () => {
  history.replaceState(null, '', '/new');
  store = new Store();
  render(<Root store={store} />);
  await act(() => store.start());
  answers['POST /api/v1/sessions'] = [201, session({ id: 'ses_7' })];
  answers['POST /api/v1/sessions/ses_7/messages'] = [503, { error: { code: 'unavailable', message: 'Shutting down.' } }];
  await act(async () => void fireEvent.input(screen.getByLabelText('Message'), { target: { value: 'Hello' } }));
  await click('Send');
  await tell();
  answers['POST /api/v1/sessions/ses_7/messages'] = [202, {}];
  await click('Send');
  expect(sent('POST', /sessions$/).length).toBe(1);
  expect(new Set(sent('POST', /messages$/).map((c) => c.key)).size).toBe(1);
  expect(location.pathname).toBe('/s/ses_7');
});

test('a launch link is used up and leaves the address', async () => {
  answers['POST /auth/launch'] = [200, {}];
  history.replaceState(null, '', '/#launch=s3cret');
  store = new Store();
  await store.start();
  expect(location.hash).toBe('');
  expect(sent('POST', /launch$/)[0]!.body).toEqual({ secret: 's3cret' });
});

test('signed out keeps the draft and says what to do', async () => {
  await open(snapshot());
  answers['POST /api/v1/sessions/ses_1/messages'] = [401, { error: { code: 'unauthenticated', message: 'x' } }];
  await act(async () => void fireEvent.input(screen.getByLabelText('Message'), { target: { value: 'kept' } }));
  await click('Send');
  await tell();
  expect(screen.getByRole('heading', { name: 'Signed out' })).toBeTruthy();
  expect(localStorage.getItem('reprise.draft.ses_1')).toBe('kept');
});

const waiting = (o: object = {}) => event('schedule', { schedule: schedule({ token: 7, next_at: Date.now() + 60_000, ...o }) });
const retried = { ...shown, auto: true, verb: 'regenerate', replay_safe: true, evidence: [] };

/** A session whose run has failed with nothing shown, by the server's clock. */
async function openFailed(o: object = {}): Promise<void> {
  const s = snapshot({ messages: [message(), reply('', { parts: [], failure, recovery: retried })] });
  s.snapshot!.system.now = Date.now();
  await open(s, event('run', { run: run({ state: 'failed', failure, recovery: retried }) }), waiting(o));
}

const bar = () => screen.queryByRole('region', { name: 'Retry' });
const retryPath = '/api/v1/sessions/ses_1/retry';

test('a wait counts down, is cancelled by the same button, and the focus stays on it', async () => {
  await openFailed();
  expect(bar()!.textContent).toContain('large is overloaded. Trying again in 60 s.attempt 4 · nothing had been shown');
  expect(within(bar()!).getByRole('timer').getAttribute('aria-live')).toBeNull();
  const button = screen.getByRole('button', { name: 'Cancel retry' });
  button.focus();
  answers[`DELETE ${retryPath}?token=7`] = [200, {}];
  await click('Cancel retry');
  await tell(waiting({ state: 'cancelled' }));
  expect(sent('DELETE', /retry/).length).toBe(1);
  expect(screen.getByRole('button', { name: 'Dismiss' })).toBe(button);
  expect(document.activeElement).toBe(button);
  expect(screen.getByRole('status').textContent).toBe('Retry cancelled. Nothing will start by itself.');
});

test('the second click of a double one does not fall on what took its place', async () => {
  await openFailed({ state: 'cancelled' });
  await act(async () => void fireEvent.click(screen.getByRole('button', { name: 'Dismiss' }), { detail: 2 }));
  expect(sent('DELETE', /retry/).length).toBe(0);
});

test('Try now shows that it starts, sends once, and leaves the focus with the bar', async () => {
  await openFailed();
  answers[`POST ${retryPath}/now`] = [202, {}];
  screen.getByRole('button', { name: 'Try now' }).focus();
  await click('Try now');
  await tell();
  expect(bar()!.textContent).toBe('Starting attempt 4…Cancel');
  expect(document.activeElement).toBe(bar());
  await act(async () => void fireEvent.keyDown(document.body, { key: 't', bubbles: true }));
  expect(sent('POST', /now$/).map((c) => [c.body, !!c.key])).toEqual([[{ token: 7, confirm_effects: false }, true]]);
  await tell(event('schedule', {}), event('run', { run: run({ id: 'run_2', state: 'queued', trigger: 'retry', attempt: 4 }) }));
  expect(bar()).toBeNull();
  expect(document.activeElement).toBe(screen.getByRole('log'));
  expect(screen.getByRole('status').textContent).toBe('Starting attempt 4');
});

test('t starts and Escape cancels a wait, with a draft at the second press', async () => {
  await openFailed();
  const box = screen.getByLabelText('Message');
  await act(async () => void fireEvent.input(box, { target: { value: 'draft' } }));
  expect(screen.getByRole('button', { name: 'Send and cancel retry' })).toBeTruthy();
  await act(async () => void fireEvent.keyDown(box, { key: 't', bubbles: true }));
  await act(async () => void fireEvent.keyDown(box, { key: 'Escape', bubbles: true }));
  expect(calls.slice(1)).toEqual([]);
  expect(screen.getByText('Press Esc again to cancel the retry', { selector: '.hint' })).toBeTruthy();
  await act(async () => void fireEvent.keyDown(box, { key: 'Escape', bubbles: true }));
  expect(calls.slice(1).map((c) => `${c.method} ${c.path}`)).toEqual([`DELETE ${retryPath}?token=7`]);
  await act(async () => void fireEvent.keyDown(document.body, { key: 't', bubbles: true }));
  expect(sent('POST', /now$/).length).toBe(1);
});

test('a schedule that has changed is read again, and the page says so', async () => {
  await openFailed();
  answers[`POST ${retryPath}/now`] = [409, { error: { code: 'stale_token', message: 'x', details: { schedule: schedule({ token: 8, next_at: Date.now() + 60_000 }) } } }];
  await click('Try now');
  await tell();
  expect(screen.getByText(/The retry has changed since you saw it/, { selector: '.refused' })).toBeTruthy();
  expect(screen.getByRole('button', { name: 'Try now' })).toBeTruthy();
  expect(store.session()!.schedule!.token).toBe(8);
});

test('effects are listed before a retry', async () => {
  await openFailed();
  const effects = [effect()];
  answers['GET /api/v1/sessions/ses_1/messages/msg_1/regenerate'] = [200, preview({ effects })];
  answers[`POST ${retryPath}/now`] = [409, { error: { code: 'effects_not_confirmed', message: 'x', details: { effects } } }];
  await click('Try now');
  const dialog = within(await screen.findByRole('dialog'));
  await act(async () => void fireEvent.click(dialog.getByRole('button', { name: 'Retry' })));
  expect(sent('POST', /now$/).at(-1)!.body).toEqual({ token: 7, confirm_effects: true });
});

test('what the bar says and offers is not in the card too', async () => {
  await openFailed();
  const card = () => within(screen.getByRole('group', { name: 'What went wrong' }));
  expect(card().queryByText(/Nothing is scheduled/)).toBeNull();
  expect(card().queryByRole('button', { name: 'Retry' })).toBeNull();
  await tell(waiting({ state: 'never', reason: 'far_reset', not_before: Date.now() + 7_200_000 }));
  expect(card().queryByText(/asked to wait/)).toBeNull();
  expect(card().getByRole('button', { name: 'Retry anyway' })).toBeTruthy();
  answers[`POST ${retryPath}/schedule`] = [200, schedule()];
  await click('Schedule it');
  expect(sent('POST', /schedule$/)[0]!.body).toEqual({ token: 7 });
  await tell(waiting({ state: 'never', reason: 'off' }));
  expect(bar()).toBeNull();
  expect(card().getByText(/Nothing is scheduled/)).toBeTruthy();
});

test('the waiting list has every session that waits, those that this page was not told of too', async () => {
  const later = Date.now() + 3_600_000;
  answers['GET /api/v1/waiting'] = [200, { waiting: [schedule({ session_id: 'ses_old', next_at: Date.now() + 40_000 }), schedule({ next_at: later })], now: 0 }];
  history.replaceState(null, '', '/waiting');
  store = new Store();
  render(<Root store={store} />);
  await act(() => store.start());
  const s = snapshot({
    sessions: [
      session({ last_run: run({ state: 'failed' }), schedule: schedule({ state: 'scheduled', next_at: later }) }),
      session({ id: 'ses_2', title: 'Held', schedule: schedule({ session_id: 'ses_2', state: 'held' }) }),
      session({ id: 'ses_3', title: 'Stopped', schedule: schedule({ session_id: 'ses_3', state: 'cancelled' }) }),
    ],
    session: undefined,
  });
  s.snapshot!.system.now = Date.now();
  await tell(s);
  const main = within(await screen.findByRole('main'));
  await main.findByText('ses_old');
  expect(main.getAllByRole('link').map((a) => [a.getAttribute('href'), a.querySelector('.row-state')?.textContent]).slice(1)).toEqual([
    ['/s/ses_2', 'ready, waits for you to look'],
    ['/s/ses_old', 'retry in 40 s'],
    ['/s/ses_1', expect.stringMatching(/^retry after /)],
  ]);
  expect(screen.getByRole('link', { name: '2 waiting' }).getAttribute('href')).toBe('/waiting');
});

test('g, then w, leads to what waits', async () => {
  await open(snapshot());
  const press = (key: string) => act(async () => void fireEvent.keyDown(document.body, { key, bubbles: true }));
  await press('w');
  expect(location.pathname).toBe('/s/ses_1');
  await press('g');
  await press('w');
  expect(location.pathname).toBe('/waiting');
});

test('keys of one letter can be turned off', async () => {
  await openFailed();
  setDevice({ letters: false });
  await act(async () => void fireEvent.keyDown(document.body, { key: 't', bubbles: true }));
  expect(sent('POST', /now$/)).toEqual([]);
  setDevice({ letters: true });
});

test('a start that is cancelled on its way does not seem to go on', async () => {
  await openFailed();
  answers[`POST ${retryPath}/now`] = [202, {}];
  answers[`DELETE ${retryPath}?token=7`] = [200, {}];
  await click('Try now');
  await tell();
  await click('Cancel');
  await tell(waiting({ state: 'cancelled' }));
  expect(bar()!.textContent).toContain('Retry cancelled.');
  expect(screen.getByRole('button', { name: 'Retry' })).toBeTruthy();
});

test('a cancel does not overtake the start that it is to end', async () => {
  await openFailed();
  let arrive!: () => void;
  arrivals[`POST ${retryPath}/now`] = new Promise((done) => (arrive = done));
  answers[`POST ${retryPath}/now`] = [202, {}];
  answers[`DELETE ${retryPath}?token=7`] = [200, {}];
  await click('Try now');
  await tell();
  await click('Cancel');
  expect(sent('DELETE', /retry/)).toEqual([]);
  arrive();
  await settle();
  expect(sent('DELETE', /retry/).length).toBe(1);
});

test('going on after the finished steps is offered once', async () => {
  const resumable = { ...retried, verb: 'resume', choices: ['resume'] };
  await open(
    snapshot({ messages: [message(), reply('a step', { failure, recovery: resumable })] }),
    event('run', { run: run({ state: 'failed', failure, recovery: resumable, steps: 1 }) }),
    waiting({ verb: 'resume' }),
  );
  expect(bar()!.textContent).toContain('goes on after step 1; nothing is run twice');
  expect(screen.queryByRole('button', { name: /Resume/ })).toBeNull();
  await tell(event('schedule', {}));
  expect(screen.getByRole('button', { name: /Resume/ })).toBeTruthy();
});
