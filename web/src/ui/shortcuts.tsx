import { setDevice } from '../device';
import type { Store } from '../store';
import { Dialog } from './dialog';
import { useDevice } from './hooks';

const keys: [string[], string, boolean][] = [
  [['Esc'], 'Close what is open; else stop the run, or cancel the retry', false],
  [['Enter'], 'Send; with Shift, break the line', false],
  [['Ctrl', 'Enter'], 'Send, always', false],
  [['j'], 'Next message', true],
  [['k'], 'Previous message', true],
  [['['], 'Previous version of the reply', true],
  [[']'], 'Next version of the reply', true],
  [['r'], 'Regenerate the focused or last reply', true],
  [['t'], 'Try now', true],
  [['a'], 'Attempts', true],
  [['g', 'w'], 'What waits', true],
  [['?'], 'This list', true],
];

/** The keys of the page, and the way to turn those of one letter off. */
export function Shortcuts({ store }: { store: Store }) {
  const { letters } = useDevice();
  return (
    <Dialog onClose={() => store.closeDialog()} title="Keys" class="keys">
      <dl class="key-list">
        {keys.map(([names, does, letter]) => (
          <div key={does} class={letter && !letters ? 'off' : ''}>
            <dt>
              {names.map((n) => (
                <kbd key={n}>{n}</kbd>
              ))}
            </dt>
            <dd>
              {does}
              {letter && !letters && ' (off)'}
            </dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={letters} onChange={(e) => setDevice({ letters: e.currentTarget.checked })} />
        Keys of one letter, on this device
      </label>
    </Dialog>
  );
}
