// Shapes beside words. They carry no meaning alone and are hidden from assistive technology.

const paths = {
  running: 'M8 2a6 6 0 1 1-6 6',
  queued: 'M8 2v0M4.5 4.5h7M4.5 8h7M4.5 11.5h4',
  waiting: 'M8 4.5V8l2.4 1.6M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z',
  'needs-you': 'M8 2.5 14.2 13.5H1.8ZM8 6.6v3M8 11.6v.1',
  interrupted: 'M4.2 4.2h7.6v7.6H4.2Z',
  failed: 'M4.5 4.5l7 7M11.5 4.5l-7 7',
  cancelled: 'M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0ZM3.9 3.9l8.2 8.2',
  check: 'M3.5 8.5l3 3 6-7',
  tool: 'M2.5 4.5l3.5 3.5-3.5 3.5M7.5 11.5h6',
  close: 'M4 4l8 8M12 4l-8 8',
  back: 'M9.5 3.5 5 8l4.5 4.5',
  forward: 'M6.5 3.5 11 8l-4.5 4.5',
  down: 'M8 3v9.5M4.2 8.8 8 12.6l3.8-3.8',
  send: 'M8 13V3.4M4 7.2 8 3.2l4 4',
  plus: 'M8 3v10M3 8h10',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
} as const;

export type IconName = keyof typeof paths | 'idle';

export function Icon({ name }: { name: IconName }) {
  if (name === 'idle') return <span class="icon" aria-hidden="true" />;
  return (
    <svg class={`icon icon-${name}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}

/** The repeat sign of music. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <circle cx="4.2" cy="7.2" r="1.9" />
      <circle cx="4.2" cy="12.8" r="1.9" />
      <rect x="9" y="2.5" width="1.6" height="15" rx=".5" />
      <rect x="13" y="2.5" width="4" height="15" rx=".6" />
    </svg>
  );
}
