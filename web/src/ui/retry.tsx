import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { later, retryBar } from '../retry';
import type { App, Store } from '../store';
import { waits, type Schedule, type Session } from '../types';
import { clockTime, fullTime } from '../words';
import { log, once, useCountdown, useLate } from './hooks';
import { Icon } from './icons';
import { Menu } from './menu';

/** What happens next to a session whose run has failed, in one place above the composer. */
export function RetryBar({ store, app, session }: { store: Store; app: App; session: Session | undefined }) {
  const s = session?.schedule;
  return s ? <Shown store={store} app={app} session={session} schedule={s} /> : null;
}

const icons = {
  armed: 'waiting', scheduled: 'waiting', held: 'waiting', dispatching: 'running', cancelled: 'cancelled', exhausted: 'needs-you', never: 'needs-you',
} as const;

function Shown({ store, app, session, schedule: s }: { store: Store; app: App; session: Session; schedule: Schedule }) {
  const until = s.next_at ?? s.not_before ?? 0;
  const now = useCountdown(app.server.clock, until, s.state === 'armed' ? 1000 : 60_000);
  const bar = useRef<HTMLElement>(null);
  const focused = useRef(false);
  const b = retryBar(s, session.last_run, app.starting === `${s.session_id}/${s.token}`, now);
  const holdsFocus = () => bar.current?.contains(document.activeElement) ?? false;
  focused.current = holdsFocus();
  // What goes while it has the focus leaves it to its surroundings, not to the top of the page.
  useLayoutEffect(() => {
    if (focused.current && !holdsFocus()) (bar.current ?? log())?.focus();
  });
  useLayoutEffect(() => () => void (holdsFocus() && log()?.focus()), []);
  if (!b) return null;

  return (
    <section class={`retry retry-${b.state}`} aria-label="Retry" tabIndex={-1} ref={bar}>
      <Icon name={icons[b.state]} />
      <div class="retry-text">
        <p>
          {b.text}
          {b.timer && (
            <>
              {' '}
              <span role="timer" class="number">
                {b.timer}
              </span>
            </>
          )}
          {b.at > 0 && (
            <>
              {' '}
              <strong>
                <time dateTime={new Date(b.at).toISOString()} title={fullTime(b.at)}>
                  {clockTime(b.at, now)}
                </time>
              </strong>
            </>
          )}
          {b.rest}
        </p>
        {b.notes.length > 0 && <p class="retry-notes">{b.notes.join(' · ')}</p>}
      </div>
      <div class="retry-actions">
        {b.attempts && (
          <button key="attempts" type="button" class="text" onClick={() => store.showAttempts(s.anchor_message_id)}>
            Attempts
          </button>
        )}
        {waits(s) && b.state !== 'dispatching' && <Later key="later" store={store} schedule={s} now={now} />}
        {b.main && (
          <button key="main" type="button" class="button" onClick={once(() => (b.main === 'Schedule it' ? store.scheduleRetry() : store.retryNow()))}>
            {b.main}
          </button>
        )}
        <button key="other" type="button" class="button" onClick={once(() => store.cancelRetry())}>
          {b.other}
        </button>
      </div>
    </section>
  );
}

/** Puts the start off: to one of a few times, or to one of the operator's. */
function Later({ store, schedule, now }: { store: Store; schedule: Schedule; now: number }) {
  const [asking, setAsking] = useState(false);
  const late = useLate(store, asking);
  const items = later(schedule, now).map((l) => ({ text: l.text, act: () => void store.snoozeRetry(l.until) }));
  return (
    <>
      <Menu class="text" items={[...items, { text: 'At a time…', act: () => setAsking(true) }]}>
        Later
      </Menu>
      {asking && late && <late.Snooze schedule={schedule} now={now} onChoose={(t) => void store.snoozeRetry(t)} onClose={() => setAsking(false)} />}
    </>
  );
}
