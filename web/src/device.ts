// What is set for this device alone: how the page looks and behaves here. It is kept in the
// browser's storage; where that is full or forbidden, it holds until the page is left.

export interface Device {
  letters: boolean; // keys of one letter do something
  enter: 'auto' | 'send' | 'newline'; // auto: it sends where there is a mouse
  clock: 'auto' | '12' | '24'; // auto: as the browser's language has it
  theme: 'system' | 'light' | 'dark';
  countdown: boolean; // a wait counts down; otherwise only its time is shown
  speak: boolean; // to screen readers, a sentence every five seconds of a reply
  notify: boolean; // when a session needs the operator while the page is hidden
}

const defaults: Device = { letters: true, enter: 'auto', clock: 'auto', theme: 'system', countdown: true, speak: false, notify: false };

// The values of what is not simply on or off.
const values: Partial<Record<keyof Device, readonly string[]>> = {
  enter: ['auto', 'send', 'newline'],
  clock: ['auto', '12', '24'],
  theme: ['system', 'light', 'dark'],
};

const key = 'reprise.device';
const listeners = new Set<() => void>();
let current = load();

function load(): Device {
  let stored: unknown;
  try {
    stored = JSON.parse(localStorage.getItem(key) ?? '{}');
  } catch {
    return defaults;
  }
  // What another version of the page has stored may be of another shape.
  const known = Object.entries(stored && typeof stored === 'object' ? stored : {}).filter(([k, v]) => {
    const name = k as keyof Device;
    return Object.hasOwn(defaults, k) && typeof v === typeof defaults[name] && (values[name]?.includes(String(v)) ?? true);
  });
  return { ...defaults, ...Object.fromEntries(known) };
}

/** The settings of this device; another object after each change. */
export const device = (): Device => current;

export function setDevice(change: Partial<Device>): void {
  current = { ...current, ...change };
  try {
    localStorage.setItem(key, JSON.stringify(current));
  } catch {
    // It holds until the page is left.
  }
  for (const l of listeners) l();
}

/** Calls back after each change, also one in another tab, until the returned function is called. */
export function onDevice(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

addEventListener('storage', (e) => {
  if (e.key !== key && e.key !== null) return;
  current = load();
  for (const l of listeners) l();
});
