import { useState } from 'preact/hooks';
import { nextAt } from '../retry';
import type { Schedule } from '../types';
import { clockTime, span } from '../words';
import { Modal } from './modal';

interface Props {
  schedule: Schedule;
  now: number; // the server's time
  onChoose: (until: number) => void;
  onClose: () => void;
}

/** Asks for the time at which a retry starts. */
export function Snooze({ schedule, now, onChoose, onClose }: Props) {
  const [clock, setClock] = useState('');
  const at = nextAt(clock, now);
  const until = Math.max(at, schedule.not_before ?? 0);
  return (
    <Modal
      title="Retry later"
      done="Set the time"
      ready={at > 0}
      onDone={() => {
        onChoose(until);
        onClose();
      }}
      onClose={onClose}
    >
      <label class="field">
        <span>Not before</span>
        <input type="time" value={clock} autofocus aria-describedby="snooze-note" onInput={(e) => setClock(e.currentTarget.value)} />
      </label>
      <p class="soft" id="snooze-note">
        {at === 0 ? 'The next time that the clock shows it.' : until > at ? `The provider asked to wait until ${clockTime(until, now)}, in ${span(until - now)}.` : `${clockTime(at, now)}, in ${span(at - now)}.`}
      </p>
    </Modal>
  );
}
