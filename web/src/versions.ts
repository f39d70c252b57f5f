import { all } from './money';
import type { Message, Part, Run, Spend } from './types';

// The replies that something took the place of. Pure.

/** An earlier reply to a message, as it was when it was superseded. */
export interface Version {
  rows: Message[]; // of the reply, by position
  results: Record<string, Part>; // of its tools, by call id
  later: Message[]; // what had followed it, and went with it
  run: Run | undefined; // that wrote it
  by: Run | undefined; // that took its place
  at: number; // when
}

/**
 * The superseded replies to each operator message, oldest first. A run that ended without
 * having published anything left no version, unless something had followed it.
 */
export function versions(old: Message[], messages: Message[], runs: Record<string, Run>): Record<string, Version[]> {
  const groups = new Map<string, Message[]>();
  for (const m of old) groups.set(m.superseded_by!, [...(groups.get(m.superseded_by!) ?? []), m]);
  const found: Record<string, Version[]> = {};
  for (const [id, rows] of groups) {
    const by = runs[id];
    if (!by) continue; // it is told next
    const split = rows.findIndex((m) => m.role === 'operator');
    const own = split < 0 ? rows : rows.slice(0, split);
    const later = split < 0 ? [] : rows.slice(split);
    if (later.length === 0 && !own.some((m) => m.role === 'reply' && (m.parts ?? []).length > 0)) continue;
    const whole = [...committed(own, by, [...old, ...messages], runs), ...own];
    (found[by.message_id] ??= []).push({
      rows: whole.filter((m) => m.role === 'reply'),
      results: resultsOf(whole),
      later,
      run: runs[own.at(-1)?.run_id ?? ''],
      by,
      at: rows[0]!.superseded_at ?? 0,
    });
  }
  for (const list of Object.values(found)) list.sort((a, b) => a.at - b.at);
  return found;
}

// A resumed run keeps the steps that were committed: they belong to the version that it left
// and to the one that it made.
function committed(own: Message[], by: Run, all: Message[], runs: Record<string, Run>): Message[] {
  if (!by.continues || own.length === 0) return [];
  const chain = new Set<string>();
  for (let id = by.continues; id && !chain.has(id); id = runs[id]?.continues ?? '') chain.add(id);
  return all
    .filter((m) => chain.has(m.run_id) && m.role !== 'operator' && m.position < own[0]!.position && !chain.has(m.superseded_by ?? ''))
    .sort((a, b) => a.position - b.position);
}

/**
 * Of the runs that answered a message, oldest first, those that wrote a version of the reply,
 * from 1: from the one that took the place of the version before to the last. Those that
 * failed before they showed anything are among them.
 */
export function runsOf(version: number, earlier: Version[], runs: Run[]): Run[] {
  const from = runs.findIndex((r) => r.id === earlier[version - 2]?.by?.id);
  const to = runs.findIndex((r) => r.id === earlier[version - 1]?.by?.id);
  return runs.slice(Math.max(0, from), to < 0 ? undefined : to);
}

/** What a version cost: all of its runs, as far as they are known, else the rows that are shown. */
export function costOf(runs: Run[], rows: Message[]): Spend {
  const known = runs.length > 0 && runs.every((r) => r.spend);
  return all(known ? runs.map((r) => r.spend) : rows.map((m) => m.spend));
}

/** Tool results by call id. */
export function resultsOf(messages: Message[]): Record<string, Part> {
  const results: Record<string, Part> = {};
  for (const m of messages) if (m.role === 'tool') for (const p of m.parts ?? []) if (p.call_id) results[p.call_id] = p;
  return results;
}
