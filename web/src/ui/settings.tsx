import type { ComponentChildren } from 'preact';
import { useEffect, useId, useLayoutEffect, useState } from 'preact/hooks';
import * as api from '../api';
import { setDevice, type Device } from '../device';
import { byKey, inWords, milliseconds, origin, sequence, type Values } from '../settings';
import type { App, Store } from '../store';
import type { Setting, SettingList } from '../types';
import { Head } from './head';
import { useDevice } from './hooks';

const tier2 = 'recovery.tier2.';

/** What can be set: how the server repeats failed runs, for everybody, and how the page behaves on this device. */
export function Settings({ store, app }: { store: Store; app: App }) {
  return (
    <>
      <Head store={store} title="Settings" />
      <div class="settings">
        {app.error && <p class="refused">{app.error}</p>}
        <Server store={store} />
        <ThisDevice />
      </div>
    </>
  );
}

interface Change {
  set?: Record<string, string>;
  reset?: string[];
}

function Server({ store }: { store: Store }) {
  const [list, setList] = useState<SettingList | null>(null);
  const [refused, setRefused] = useState<{ key: string; text: string } | null>(null);
  const [said, setSaid] = useState('');
  useEffect(() => {
    const read = () => void (document.hidden || api.getSettings().then(setList, (e: Error) => store.failed(e.message)));
    read();
    document.addEventListener('visibilitychange', read); // another page may have changed them
    return () => document.removeEventListener('visibilitychange', read);
  }, []);
  const change = async (key: string, c: Change): Promise<boolean> => {
    try {
      setList(await api.changeSettings(c));
      setRefused(null);
      setSaid('Saved.');
      return true;
    } catch (e) {
      setRefused({ key, text: (e as Error).message.replace(/^[\w.]+: /, '') });
      setSaid('');
      return false;
    }
  };
  if (!list) return <p class="log-note">Loading…</p>;
  const values = byKey(list.settings);
  const one = (key: string) => ({ setting: values[key]!, refused: refused?.key === key ? refused.text : '', change: (c: Change) => change(key, c) });
  const retry = (key: string) => one(tier2 + key);
  return (
    <section aria-labelledby="settings-retries">
      <h2 id="settings-retries">Retries</h2>
      <p class="soft">For everybody who uses this server, at once. A reply is repeated only while that is safe, whatever is set here.</p>
      {list.problem && <p class="refused">What was set here does not fit the server’s configuration, and does not count: {list.problem}</p>}
      <Switch {...retry('ask')} title="Ask before every retry" note="A retry that is due waits for your click." />
      <Mode {...retry('mode')} values={values} />
      <Text {...retry('base')} title="First wait" note="Each further wait is twice as long." say={inWords} />
      <Text {...retry('cap')} title="Longest wait" note={sequence(values[`${tier2}base`]!.value, values[`${tier2}cap`]!.value)} say={inWords} />
      <Text {...retry('max_elapsed')} title="Give up after" note="From the first failure on. 0: no limit. Retries that nobody watches need one, in time or in money." say={inWords} />
      <Text {...retry('max_spend')} title="Or after spending" note="US dollars, from the first failure on. 0: no limit." say={usd} />
      <Text {...retry('max_attempts')} title="Or after attempts" note="Failed replies in a row. 0: no limit." say={(v) => (v === '0' ? 'none' : v)} />
      <h2 class="setting">Cost</h2>
      <p class="soft">Limits for everybody, from the next run on. A session can have one of its own.</p>
      <Text {...one('spend.session')} title="Each session" note="US dollars over its whole life. 0: no limit." say={usd} />
      <Text {...one('spend.day')} title="All in a day" note="US dollars in the last 24 hours. 0: no limit." say={usd} />
      <p class="hidden" role="status">
        {said}
      </p>
    </section>
  );
}

interface One {
  setting: Setting;
  refused: string;
  change: (c: Change) => Promise<boolean>;
}

/** Where a setting is from, and the way back to it. */
function Origin({ id, setting: s, refused, change, say }: One & { id: string; say: (v: string) => string }) {
  const text = origin(s, say);
  return (
    <p class="setting-origin" id={id}>
      {refused && <strong class="bad">{refused}.</strong>}
      {text}
      {s.set && !s.fixed && (
        <button type="button" class="text" aria-label={`Reset ${s.key}`} onClick={() => void change({ reset: [s.key] })}>
          Reset
        </button>
      )}
    </p>
  );
}

const usd = (v: string): string => (v === '0' ? 'none' : `$${v}`);
const onOff = (v: string): string => (v === 'true' ? 'on' : 'off');

function Switch({ title, note, ...one }: One & { title: string; note: string }) {
  const id = useId();
  const { setting: s } = one;
  return (
    <div class="setting">
      <Toggle title={title} note={note} on={s.value === 'true'} disabled={s.fixed} describedby={id} onChange={(on) => void one.change({ set: { [s.key]: String(on) } })} />
      <Origin id={id} {...one} say={onOff} />
    </div>
  );
}

const modes = [
  { value: 'interactive', title: 'While somebody watches', note: 'A retry that is due while nobody looks is held until somebody does.' },
  { value: 'unattended', title: 'Also when nobody watches', note: 'Until a ceiling in time or money is reached.' },
  { value: 'off', title: 'Never by itself', note: 'A failed reply waits for you.' },
];
const modeWords = (v: string): string => modes.find((m) => m.value === v)?.title.toLowerCase() ?? v;

// Without a ceiling the server takes no retries that nobody watches.
const ceiling = '12h';

function Mode({ values, ...one }: One & { values: Values }) {
  const id = useId();
  const { setting: s } = one;
  const choose = (mode: string) => {
    const set: Record<string, string> = { [s.key]: mode };
    const elapsed = values[`${tier2}max_elapsed`]!;
    if (mode === 'unattended' && milliseconds(elapsed.value) === 0 && Number(values[`${tier2}max_spend`]!.value) === 0) set[elapsed.key] = ceiling;
    void one.change({ set });
  };
  return (
    <div class="setting">
      <Choice name="mode" title="Retry failed replies" value={s.value} options={modes} disabled={s.fixed} describedby={id} onChange={choose} />
      <Origin id={id} {...one} say={modeWords} />
    </div>
  );
}

function Text({ title, note, say, ...one }: One & { title: string; note: string; say: (v: string) => string }) {
  const id = useId();
  const { setting: s, refused } = one;
  const [text, setText] = useState(s.value);
  useLayoutEffect(() => setText(s.value), [s.value, s.set]);
  const changed = text.trim() !== s.value;
  return (
    <form
      class="setting"
      onSubmit={(e) => {
        e.preventDefault();
        if (changed) void one.change({ set: { [s.key]: text.trim() } });
      }}
    >
      <label class="setting-text">
        <span>{title}</span>
        <input type="text" size={8} value={text} disabled={s.fixed} aria-invalid={refused !== ''} aria-describedby={`${id}-note ${id}`} onInput={(e) => setText(e.currentTarget.value)} />
      </label>
      {changed && (
        <button type="submit" class="button">
          Save
        </button>
      )}
      <p class="soft" id={`${id}-note`}>
        {note}
      </p>
      <Origin id={id} {...one} say={say} />
    </form>
  );
}

const on = <K extends keyof Device>(key: K) => (value: Device[K]) => setDevice({ [key]: value });

/** One of several values, each a word, of what is set for this device. */
function Pick({ of, title, options }: { of: 'theme' | 'clock' | 'enter'; title: string; options: ChoiceProps['options'] }) {
  return <Choice name={of} title={title} value={useDevice()[of]} options={options} onChange={(v) => setDevice({ [of]: v })} />;
}

function ThisDevice() {
  const d = useDevice();
  return (
    <section aria-labelledby="settings-device">
      <h2 id="settings-device">This device</h2>
      <p class="soft">Kept in this browser.</p>
      <Pick
        of="theme"
        title="Colours"
        options={[
          { value: 'system', title: 'As the system has them' },
          { value: 'light', title: 'Light' },
          { value: 'dark', title: 'Dark' },
        ]}
      />
      <Pick
        of="clock"
        title="Clock"
        options={[
          { value: 'auto', title: 'As the language has it' },
          { value: '24', title: '24 hours', note: '14:50' },
          { value: '12', title: '12 hours', note: '2:50 PM' },
        ]}
      />
      <Pick
        of="enter"
        title="Enter key"
        options={[
          { value: 'auto', title: 'Sends where there is a mouse' },
          { value: 'send', title: 'Sends', note: 'Shift+Enter breaks the line.' },
          { value: 'newline', title: 'Breaks the line', note: 'Ctrl+Enter sends.' },
        ]}
      />
      <Toggle title="Show times, not countdowns" note="What waits says when it starts, and does not tick." on={!d.countdown} onChange={(v) => on('countdown')(!v)} />
      <Toggle title="Speak while a reply is written" note="Screen readers are told what is new every five seconds." on={d.speak} onChange={on('speak')} />
      <Toggle title="Keys of one letter" note="Shortcuts outside of text boxes, as t for Try now. ? lists them." on={d.letters} onChange={on('letters')} />
      <Notify on={d.notify} />
    </section>
  );
}

/** Notifications need the browser's permission, which it asks for once. */
function Notify({ on: wanted }: { on: boolean }) {
  const there = 'Notification' in window;
  const [allowed, setAllowed] = useState(there ? Notification.permission : 'denied');
  const note = !there
    ? 'This browser has none for this page.'
    : allowed === 'denied'
      ? 'This browser refuses them for this page. Allow them in its settings first.'
      : 'While the page is hidden: when a session needs you, or a reply is complete.';
  const change = async (v: boolean) => {
    const answer = v && allowed === 'default' ? await Notification.requestPermission() : allowed;
    setAllowed(answer);
    setDevice({ notify: v && answer === 'granted' });
  };
  return <Toggle title="Notifications" note={note} on={wanted && allowed === 'granted'} disabled={allowed === 'denied'} onChange={(v) => void change(v)} />;
}

interface ToggleProps {
  title: string;
  note: string;
  on: boolean;
  disabled?: boolean;
  describedby?: string;
  onChange: (on: boolean) => void;
}

function Toggle({ title, note, on: value, disabled = false, describedby = '', onChange }: ToggleProps) {
  const id = useId();
  return (
    <label class="option">
      <input type="checkbox" role="switch" checked={value} disabled={disabled} aria-describedby={`${id} ${describedby}`.trim()} onChange={(e) => onChange(e.currentTarget.checked)} />
      <span>{title}</span>
      <span class="soft" id={id}>
        {note}
      </span>
    </label>
  );
}

interface ChoiceProps {
  name: string;
  title: string;
  value: string;
  options: { value: string; title: string; note?: string }[];
  disabled?: boolean;
  describedby?: string;
  onChange: (value: string) => void;
}

function Choice({ name, title, value, options, disabled = false, describedby, onChange }: ChoiceProps): ComponentChildren {
  return (
    <fieldset class="choice" disabled={disabled} aria-describedby={describedby}>
      <legend>{title}</legend>
      {options.map((o) => (
        <label class="option" key={o.value}>
          <input type="radio" name={name} value={o.value} checked={value === o.value} onChange={() => onChange(o.value)} />
          <span>{o.title}</span>
          {o.note && <span class="soft">{o.note}</span>}
        </label>
      ))}
    </fieldset>
  );
}
