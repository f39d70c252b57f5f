import { describe, expect, test } from 'vitest';
import type { Message, Run } from '../src/types';
import { costOf, runsOf, versions } from '../src/versions';
import { message, reply, run } from './make';

// A conversation as it is written down here: "A" is an operator message, "a1" a reply row of
// run a1; "a1/" has published nothing, "a1=" is a row of its tools; "<r2" was superseded by r2.
function read(rows: string): Message[] {
  return rows.split(' ').map((word, i) => {
    const [, id, mark, by] = /^(\w+)([/=]?)(?:<(\w+))?$/.exec(word)!;
    const o: Partial<Message> = { id: `m${i + 1}`, position: i + 1, run_id: id, ...(by ? { superseded_by: by, superseded_at: Number(by.slice(1)) } : {}) };
    if (/^[A-Z]$/.test(id!)) return message({ ...o, id });
    return reply(mark === '/' ? '' : `text ${id}`, { ...o, role: mark === '=' ? 'tool' : 'reply', ...(mark === '/' ? { parts: [] } : {}) });
  });
}

const runs = (...list: [string, string, string?][]): Record<string, Run> =>
  Object.fromEntries(list.map(([id, message_id, continues]) => [id, run({ id, message_id, continues, trigger: continues ? 'resume' : 'regenerate' })]));

function told(rows: string, known: Record<string, Run>) {
  const all = read(rows);
  const found = versions(all.filter((m) => m.superseded_by), all.filter((m) => !m.superseded_by), known);
  return Object.fromEntries(
    Object.entries(found).map(([anchor, list]) => [anchor, list.map((v) => `${v.rows.map((m) => m.id)}|${v.later.map((m) => m.id)}|${v.run?.id}>${v.by?.id} at ${v.at}`)]),
  );
}

describe('versions', () => {
  test.each<[string, string, Record<string, Run>, object]>([
    ['no supersession, no version', 'A r1', runs(['r1', 'A']), {}],
    ['a regenerated reply', 'A r1<r2 r2', runs(['r1', 'A'], ['r2', 'A']), { A: ['m2||r1>r2 at 2'] }],
    ['oldest first', 'A r1<r2 r2<r3 r3', runs(['r1', 'A'], ['r2', 'A'], ['r3', 'A']), { A: ['m2||r1>r2 at 2', 'm3||r2>r3 at 3'] }],
    ['a failed run that published nothing is none', 'A r1/<r2 r2/<r3 r3', runs(['r1', 'A'], ['r2', 'A'], ['r3', 'A']), {}],
    ['nor is it between two that did', 'A r1<r2 r2/<r3 r3', runs(['r1', 'A'], ['r2', 'A'], ['r3', 'A']), { A: ['m2||r1>r2 at 2'] }],
    ['what followed goes with it', 'A r1<r3 B<r3 r2<r3 r3', runs(['r1', 'A'], ['r2', 'B'], ['r3', 'A']), { A: ['m2|B,m4|r1>r3 at 3'] }],
    ['also behind one that published nothing', 'A r1/<r3 B<r3 r2<r3 r3', runs(['r1', 'A'], ['r2', 'B'], ['r3', 'A']), { A: ['m2|B,m4|r1>r3 at 3'] }],
    ['an older version of what followed is not shown twice', 'A r1<r4 B<r4 r2<r3 r3<r4 r4', runs(['r1', 'A'], ['r2', 'B'], ['r3', 'B'], ['r4', 'A']), { A: ['m2|B,m5|r1>r4 at 4'], B: ['m4||r2>r3 at 3'] }],
    ['steps and tools are one reply', 'A r1<r2 r1=<r2 r1<r2 r2', runs(['r1', 'A'], ['r2', 'A']), { A: ['m2,m4||r1>r2 at 2'] }],
    ['a resumed run keeps its committed steps in both', 'A r1 r1= r1<r2 r2', runs(['r1', 'A'], ['r2', 'A', 'r1']), { A: ['m2,m4||r1>r2 at 2'] }],
    ['a resume after a clean failure leaves no version', 'A r1 r1= r1/<r2 r2', runs(['r1', 'A'], ['r2', 'A', 'r1']), {}],
    ['a resumed run that is regenerated', 'A r1<r3 r1=<r3 r1<r2 r2<r3 r3', runs(['r1', 'A'], ['r2', 'A', 'r1'], ['r3', 'A']), { A: ['m2,m4||r1>r2 at 2', 'm2,m5||r2>r3 at 3'] }],
    ['one that is resumed twice', 'A r1 r1= r1<r2 r2<r3 r3', runs(['r1', 'A'], ['r2', 'A', 'r1'], ['r3', 'A', 'r2']), { A: ['m2,m4||r1>r2 at 2', 'm2,m5||r2>r3 at 3'] }],
    ['who superseded it is not told yet', 'A r1<r2', runs(['r1', 'A']), {}],
  ])('%s', (_, rows, known, want) => expect(told(rows, known)).toEqual(want));
});

test('each run belongs to one version: a failed one that showed nothing to the one that came of it', () => {
  const all = read('A r1/<r2 r2<r3 r3/<r4 r4/<r5 r5');
  const known = runs(['r1', 'A'], ['r2', 'A'], ['r3', 'A'], ['r4', 'A'], ['r5', 'A']);
  const earlier = versions(all.filter((m) => m.superseded_by), all.filter((m) => !m.superseded_by), known).A!;
  const of = (version: number) => runsOf(version, earlier, Object.values(known)).map((r) => r.id);
  expect([of(1), of(2)]).toEqual([['r1', 'r2'], ['r3', 'r4', 'r5']]);
  expect(runsOf(1, [], [])).toEqual([]);
});

test('a version costs what its runs cost, or what its rows do where nobody knows of a run', () => {
  const spend = (amount: number, at_least = false) => ({ amount, at_least });
  const rows = [reply('', { spend: spend(5) })];
  expect(costOf([run({ spend: spend(1, true) }), run({ spend: spend(2) })], rows)).toMatchObject({ amount: 3, at_least: true });
  expect(costOf([run({ spend: spend(1) }), run()], rows)).toMatchObject({ amount: 5, at_least: false });
  expect(costOf([], rows)).toMatchObject({ amount: 5 });
});
