// How far each session was read on this device: the position of the last message whose end was
// in view.

const key = 'reprise.read';
const kept = 300; // sessions: the ones read last

type Read = [session: string, position: number][];

function load(): Read {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(key) ?? '[]');
    return Array.isArray(stored) ? stored.filter((e): e is Read[number] => Array.isArray(e) && typeof e[0] === 'string' && typeof e[1] === 'number') : [];
  } catch {
    return []; // storage that is forbidden, or holds something else: nothing was read
  }
}

/** The position, or null where this device knows nothing of the session. */
export const readTo = (session: string): number | null => load().find(([id]) => id === session)?.[1] ?? null;

export function markRead(session: string, position: number): void {
  const all = load();
  if ((all.find(([id]) => id === session)?.[1] ?? 0) >= position) return;
  try {
    localStorage.setItem(key, JSON.stringify([[session, position], ...all.filter(([id]) => id !== session)].slice(0, kept)));
  } catch {
    // Storage that is full or forbidden costs the place at the next opening, nothing else.
  }
}
