import type { Attempt, ClientKey, CoolOff, Fence, GatewayCall, Message, ModelList, Part, Preview, Receipt, Run, Schedule, Session, SettingList, Settings } from './types';

/** An answer that is an error, or no answer (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: unknown,
  ) {
    super(message);
  }
}

/** A new key for a request that may be repeated: every repeat of one act carries the same. */
export function newKey(): string {
  // randomUUID is missing where the page comes over plain HTTP from another machine.
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
}

async function call<T>(method: string, path: string, body?: unknown, key?: string): Promise<T> {
  const headers: Record<string, string> = { Accept: 'application/json' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (key) headers['Idempotency-Key'] = key;
  let response: Response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? null : JSON.stringify(body), signal: AbortSignal.timeout(30_000) });
  } catch {
    throw new ApiError(0, 'unreachable', 'The server did not answer.', null);
  }
  const text = await response.text();
  let json: unknown = null;
  try {
    json = text ? JSON.parse(text) : null;
  } catch {
    throw new ApiError(response.status, 'unreadable', `The server answered ${response.status} with something that is not JSON.`, null);
  }
  if (!response.ok) {
    const e = (json as { error?: { code?: string; message?: string; details?: unknown } } | null)?.error;
    throw new ApiError(response.status, e?.code ?? 'unknown', e?.message ?? `The server answered ${response.status}.`, e?.details);
  }
  return json as T;
}

const said = (text: string): { parts: Part[] } => ({ parts: [{ kind: 'text', text }] });
const session = (sid: string) => `/api/v1/sessions/${encodeURIComponent(sid)}`;
const run = (sid: string, rid: string) => `${session(sid)}/runs/${encodeURIComponent(rid)}`;
const retry = (sid: string) => `${session(sid)}/retry`;
const pending = (sid: string, mid: string) => `${session(sid)}/pending/${encodeURIComponent(mid)}`;

export const login = (secret: string) => call<unknown>('POST', '/auth/launch', { secret });
export const listModels = () => call<ModelList>('GET', '/api/v1/models');
export const createSession = (model: string) => call<Session>('POST', '/api/v1/sessions', model ? { model } : {});
export const patchSession = (sid: string, change: { title?: string; model?: string; archived?: boolean; settings?: Settings }) => call<Session>('PATCH', session(sid), change);
export const setModel = (sid: string, model: string) => patchSession(sid, { model });
export const listArchived = () => call<{ sessions: Session[] }>('GET', '/api/v1/sessions?archived=true');
export const changedSessions = (after: number) => call<{ sessions: Session[] }>('GET', `/api/v1/sessions?changed_after=${after}`);
export const post = (sid: string, text: string, key: string) => call<Receipt>('POST', `${session(sid)}/messages`, said(text), key);
export const regenerate = (sid: string, mid: string, revision: number, confirm_effects: boolean, key: string) =>
  call<Receipt>('POST', `${session(sid)}/messages/${encodeURIComponent(mid)}/regenerate`, { revision, confirm_effects }, key);
export const cancel = (sid: string, rid: string) => call<Run>('POST', `${run(sid, rid)}/cancel`);
export const resume = (sid: string, rid: string, key: string) => call<Receipt>('POST', `${run(sid, rid)}/resume`, undefined, key);
export const attempts = (sid: string, rid: string) => call<{ attempts: Attempt[] }>('GET', `${run(sid, rid)}/attempts`);
export const history = (sid: string) => call<{ messages: Message[] }>('GET', `${session(sid)}/messages?superseded=true`);
export const listRuns = (sid: string) => call<{ runs: Run[] }>('GET', `${session(sid)}/runs`);
export const preview = (sid: string, mid: string) => call<Preview>('GET', `${session(sid)}/messages/${encodeURIComponent(mid)}/regenerate`);
export const editPending = (sid: string, mid: string, text: string) => call<unknown>('PATCH', pending(sid, mid), said(text));
export const removePending = (sid: string, mid: string) => call<unknown>('DELETE', pending(sid, mid));
export const sendNow = (sid: string, mid: string) => call<Receipt>('POST', `${pending(sid, mid)}/send-now`);
export const retryNow = (sid: string, token: number, confirm_effects: boolean, key: string) =>
  call<Receipt>('POST', `${retry(sid)}/now`, { token, confirm_effects }, key);
export const cancelRetry = (sid: string, token: number) => call<unknown>('DELETE', `${retry(sid)}?token=${token}`);
export const scheduleRetry = (sid: string, token: number) => call<Schedule>('POST', `${retry(sid)}/schedule`, { token });
export const resolveCall = (sid: string, id: string, action: string) =>
  call<unknown>('POST', `${session(sid)}/tool-calls/${encodeURIComponent(id)}/resolve`, { action });
export const approveCall = (sid: string, id: string) => call<unknown>('POST', `${session(sid)}/tool-calls/${encodeURIComponent(id)}/approve`);
export const denyCall = (sid: string, id: string, reason: string) => call<unknown>('POST', `${session(sid)}/tool-calls/${encodeURIComponent(id)}/deny`, { reason });
export const snoozeRetry = (sid: string, token: number, until: number) => call<Schedule>('POST', `${retry(sid)}/snooze`, { token, until });
export const getSettings = () => call<SettingList>('GET', '/api/v1/settings');
export const changeSettings = (change: { set?: Record<string, string>; reset?: string[] }) => call<SettingList>('PATCH', '/api/v1/settings', change);
export const addViewer = (sid: string, viewer: string) => call<unknown>('POST', `${session(sid)}/viewers`, { viewer });
/** Goes out even while the page is being left. */
export const removeViewer = (sid: string, viewer: string) =>
  fetch(`${session(sid)}/viewers/${viewer}`, { method: 'DELETE', keepalive: true });
export const listWaiting = () => call<{ waiting: Schedule[] }>('GET', '/api/v1/waiting');

/** What the gateway's screen shows. */
export interface GatewaySeen {
  calls: GatewayCall[];
  fences: Fence[];
  cool: CoolOff[];
  keys: ClientKey[];
}

export async function gateway(): Promise<GatewaySeen> {
  const get = <T>(path: string) => call<T>('GET', `/api/v1/${path}`);
  const [{ calls }, { fences }, { cool_offs: cool }, { client_keys: keys }] = await Promise.all([
    get<{ calls: GatewayCall[] }>('gateway/calls?limit=50'), get<{ fences: Fence[] }>('fences'), get<{ cool_offs: CoolOff[] }>('cool-offs'), get<{ client_keys: ClientKey[] }>('client-keys'),
  ]);
  return { calls, fences, cool, keys };
}

export const gatewayCall = (id: string) => call<GatewayCall>('GET', `/api/v1/gateway/calls/${id}`);
export const liftFence = (id: string) => call<unknown>('DELETE', `/api/v1/fences/${id}`);
export const liftCoolOff = (c: CoolOff) => call<unknown>('DELETE', `/api/v1/cool-offs?${new URLSearchParams({ provider: c.provider, model: c.model, key: c.key ?? '' })}`);
export const createKey = (label: string) => call<{ key: string }>('POST', '/api/v1/client-keys', { label });
export const revokeKey = (id: string) => call<unknown>('DELETE', `/api/v1/client-keys/${id}`);
