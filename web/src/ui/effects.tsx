import type { App, Store } from '../store';
import type { ToolCall } from '../types';
import { clockTime } from '../words';
import { Dialog } from './dialog';
import { callTarget } from './call';

const resolutions = [
  ['use_as_is', 'Go on without knowing'],
  ['mark_done', 'It was done'],
  ['run_again', 'Run it again'],
] as const;

/** What the tools of the last run did, and what the operator decides about those whose outcome nobody knows. */
export function Effects({ store, app }: { store: Store; app: App }) {
  const run = store.session()?.last_run;
  const calls = (app.server.focus?.calls ?? []).filter((c) => c.run_id === run?.id && (c.effect || c.state !== 'ended'));
  const unknown = calls.filter(isUnknown).length;
  const message = app.server.focus?.messages.find((m) => m.id === run?.message_id);
  const resumable = run?.recovery?.choices?.includes('resume') ?? false;
  return (
    <Dialog onClose={() => store.closeDialog()} title="Effects of this run" class="wide" describedBy="effects-sum">
      <p id="effects-sum">
        {calls.length === 0
          ? 'No tool of this run is known to have changed anything.'
          : unknown > 0
            ? 'The server stopped while a tool ran: look whether it was done, then say how to go on. Nothing starts by itself.'
            : 'These stay in place. Nothing is run again when the run goes on after them.'}
      </p>
      <ul class="effects">
        {calls.map((c) => (
          <li key={`${c.step}/${c.call_id}`} class="effect">
            <code>{c.name}</code>
            <span class="effect-target">{callTarget(c.arguments)}</span>
            <span class={isUnknown(c) ? 'effect-unknown' : ''}>{words(c)}</span>
            <span class="soft number">{clockTime(c.started_at, Date.now())}</span>
            {c.state === 'unknown' && (
              <div class="effect-choices" role="group" aria-label={`${c.name}: how to go on`}>
                {resolutions.map(([how, label]) => (
                  <button key={how} type="button" class="button" onClick={() => void store.resolveCall(c.call_id, how)}>
                    {label}
                  </button>
                ))}
              </div>
            )}
          </li>
        ))}
      </ul>
      <div class="ask-actions">
        <button type="button" class="button" autofocus onClick={() => store.closeDialog()}>
          Keep reply
        </button>
        {message && (
          <button type="button" class="button" onClick={() => void store.regenerate(message)}>
            Regenerate…
          </button>
        )}
        {resumable && run && (
          <button type="button" class="button primary" disabled={unknown > 0} onClick={() => void store.resume(run.id)}>
            Go on after the last step
          </button>
        )}
      </div>
    </Dialog>
  );
}

const isUnknown = (c: ToolCall): boolean => c.state === 'unknown' || c.state === 'started';

function words(c: ToolCall): string {
  if (isUnknown(c)) return 'outcome unknown';
  if (c.state === 'again') return 'to be run again';
  if (c.state !== 'ended') return c.state;
  return c.result?.is_error ? 'failed' : 'done';
}
