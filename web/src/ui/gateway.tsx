import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import { cost, spent } from '../money';
import type { App, Store } from '../store';
import type { ClientKey, GatewayCall } from '../types';
import { className, clockTime, count, modelName, took } from '../words';
import { AttemptCard } from './drawer';
import { Head } from './head';

/** What other programs send through the gateway, what is refused to them at present, and with which keys they come. */
export function Gateway({ store, app }: { store: Store; app: App }) {
  const now = Date.now() + app.server.clock;
  const [seen, setSeen] = useState<api.GatewaySeen | null>(null);
  const [made, setMade] = useState('');
  const look = () => api.gateway().then(setSeen, (e: Error) => store.failed(e.message));
  useEffect(() => {
    void look();
    const timer = setInterval(() => document.hidden || void look(), 3000);
    return () => clearInterval(timer);
  }, []);
  const act = (f: Promise<unknown>) => void f.then(look, (e: Error) => store.failed(e.message));
  const row = (text: string, note: string, verb: string, f: () => Promise<unknown>) => (
    <li key={text + note} class="archived-item">
      <span class="row">
        <span class="row-title">{text}</span>
        <span class="row-note">{note}</span>
      </span>
      <button type="button" class="button" aria-label={`${verb}: ${text}`} onClick={() => act(f())}>
        {verb}
      </button>
    </li>
  );
  return (
    <>
      <Head store={store} title="Gateway" />
      <div class="settings">
        {app.error && <p class="refused">{app.error}</p>}
        <Part title="Calls" rows={seen?.calls.map((c) => <Call key={c.id} store={store} call={c} now={now} />)} />
        <Part
          title="Not repeated"
          rows={seen?.fences.map((f) =>
            row(`${modelName(f.model)} for ${f.client}`, `${className(f.reason)} ${clockTime(f.created_at, now)} · ${count(f.hits, 'repetition')} refused · until ${clockTime(f.expires_at, now)}`, 'Allow', () =>
              api.liftFence(f.id),
            ),
          )}
        />
        <Part
          title="Left alone"
          rows={seen?.cool.map((c) =>
            row(`${c.provider}/${c.model || '*'}${c.key ? `, key ${c.key}` : ''}`, `${className(c.reason)} · until ${clockTime(Date.parse(c.until), now)}`, 'Ask again', () => api.liftCoolOff(c)),
          )}
        />
        <Part title="Client keys" rows={seen?.keys.filter((k) => !k.revoked_at).map((k) => row(k.label, used(k), 'Revoke', () => api.revokeKey(k.id)))}>
          <form
            onSubmit={(e) => {
              e.preventDefault();
              const form = e.currentTarget;
              const label = new FormData(form).get('label') as string;
              act(api.createKey(label).then((k) => (setMade(k.key), form.reset())));
            }}
          >
            <label class="field">
              For
              <input type="text" name="label" required />
            </label>
            <button type="submit" class="button">
              Make a key
            </button>
          </form>
          {made && (
            <p>
              <code>{made}</code> is shown only now.
            </p>
          )}
        </Part>
      </div>
    </>
  );
}

const used = (k: ClientKey): string => `${k.models?.join(', ') || 'every model'} · ${count(k.total?.calls ?? 0, 'call')}, ${k.total?.refused ?? 0} refused ${spent(k.total?.spend)}`;

function Part({ title, rows, children }: { title: string; rows: ComponentChildren[] | undefined; children?: ComponentChildren }) {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      {rows?.length === 0 && <p class="soft">None.</p>}
      <ul class="waiting">{rows}</ul>
      {children}
    </section>
  );
}

function Call({ store, call: c, now }: { store: Store; call: GatewayCall; now: number }) {
  const [whole, setWhole] = useState<GatewayCall | null>(null);
  const read = (open: boolean) => open && void api.gatewayCall(c.id).then(setWhole, (e: Error) => store.failed(e.message));
  return (
    <li class="call">
      <details class="fold" onToggle={(e) => read(e.currentTarget.open)}>
        <summary>
          <code>{modelName(c.answered?.model || c.model)}</code>
          <span class="call-target">for {c.client}</span>
          <span class={`call-state ${['whole', 'open'].includes(c.outcome) ? '' : 'call-failed'}`}>{c.outcome === 'open' ? 'going on' : c.outcome}</span>
          <span class="call-took">
            {count(c.requests, 'request')} ·{' '}
            {took((c.ended_at ?? now) - c.began_at)} · {clockTime(c.began_at, now)}
          </span>
        </summary>
        <div class="call-body">
          <p class="soft">
            {c.id} · cost {cost(c.cost)}
            {whole?.message && ` · ${whole.message}`}
          </p>
          <ol class="attempts">{whole?.attempts?.map((a, i) => <AttemptCard key={a.id} attempt={a} number={i + 1} before={whole.attempts![i - 1]} />)}</ol>
        </div>
      </details>
    </li>
  );
}
