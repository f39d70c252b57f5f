import { useState } from 'preact/hooks';
import { newKey } from '../api';
import type { Store } from '../store';
import type { Model } from '../types';

interface Rehearsal {
  script: string;
  title: string;
  shows: string;
}

// A newcomer's tour: what recovers, what is kept, what is refused.
const tour: Rehearsal[] = [
  { script: 'overloaded-twice-then-ok', title: 'Overloaded twice, then a reply', shows: 'It waits, tries again, and shows one clean reply.' },
  { script: 'rate-limited-1s-then-ok', title: 'Told to come back in a second', shows: 'No attempt before the time that the provider asked for.' },
  { script: 'failed-inside-text', title: 'Broken off in the middle', shows: 'What you have read stays. Nothing is said twice.' },
  { script: 'tool-then-overloaded-then-ok', title: 'A failure behind a tool', shows: 'The tool runs once, and the reply goes on after it.' },
  { script: 'auth-failed', title: 'A key that is refused', shows: 'Trying again would not help, so it stops at once.' },
  { script: 'drip', title: 'A slow reply', shows: 'Stop it, or reload the page in the middle of it.' },
];

/** The rehearsals of the tour that this server has. */
function rehearsals(models: Model[]): (Rehearsal & { model: string })[] {
  return tour.flatMap((r) => {
    const model = models.find((m) => m.name.endsWith(`/${r.script}`) && m.name.startsWith('rehearsal'));
    return model ? [{ ...r, model: model.name }] : [];
  });
}

/** What there is to see without a key. */
export function Tour({ store, models }: { store: Store; models: Model[] }) {
  const [starting, setStarting] = useState('');
  const tour = rehearsals(models);
  if (tour.length === 0) return null;
  const rehearse = async (name: string, title: string) => {
    if (starting) return;
    setStarting(name);
    await store.send(`Rehearse: ${title[0]!.toLowerCase()}${title.slice(1)}.`, newKey(), name);
    setStarting('');
  };
  return (
    <section class="tour" aria-labelledby="tour-title">
      <h2 id="tour-title">See a retry happen</h2>
      <ul>
        {tour.map((r) => (
          <li key={r.model}>
            <button type="button" disabled={starting !== ''} onClick={() => void rehearse(r.model, r.title)}>
              <span class="tour-name">{r.title}</span>
              <span class="tour-shows">{starting === r.model ? 'Starting…' : r.shows}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
