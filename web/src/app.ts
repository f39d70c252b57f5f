import { empty, type State } from './state';
import type { Link } from './stream';
import type { Message, ModelList, Preview } from './types';

// What the page knows: the server's state as it was told, and where the operator is.

export type Route = { name: 'home' | 'new' | 'waiting' | 'archived' | 'gateway' | 'settings' } | ({ name: 'session' } & Shown);

/** What of a session is shown. */
export interface Shown {
  id: string;
  version: number; // the earlier version of a reply, from 1; 0: every reply is the current one
  of: string; // the operator message that it answers; empty: the last that has versions
  attempts: string; // the operator message whose attempts are shown; empty: none are
}

/** What is asked, or shown, before the rest of the page. */
export type Dialog =
  | { kind: 'ask'; message: Message; preview: Preview; retry: boolean; moved: boolean } // retry: the bar was pressed; moved: the list is another than before
  | { kind: 'versions' | 'compare'; message: string; version: number }
  | { kind: 'effects' | 'limit' }
  | { kind: 'keys' };

export type Ask = Extract<Dialog, { kind: 'ask' }>;

export interface App {
  server: State;
  route: Route;
  link: Link;
  models: ModelList | null;
  stopping: Record<string, boolean>; // runs that this page asked to stop, until the server confirms
  starting: string; // the schedule, as session/token, whose start this page asked for
  error: string; // of the last act that was refused or not delivered
  said: string; // of the last act that went through, for those who do not see it
  receipt: { run: string; superseded: number } | null; // of the last regenerate
  dialog: Dialog | null;
}

export const nothingYet: App = {
  server: empty, route: { name: 'home' }, link: { kind: 'connecting' }, models: null,
  stopping: {}, starting: '', error: '', said: '', receipt: null, dialog: null,
};

const screens = ['new', 'waiting', 'archived', 'gateway', 'settings'] as const;

/** What an address of the page shows. */
export function routeOf(path: string, search: string): Route {
  const [, id, attempts = ''] = /^\/s\/([^/]+)(?:\/attempts\/([^/]+))?$/.exec(path) ?? [];
  if (!id) return { name: screens.find((s) => `/${s}` === path) ?? 'home' };
  const query = new URLSearchParams(search);
  const version = Math.max(0, Math.floor(Number(query.get('v')) || 0));
  return { name: 'session', id: decodeURIComponent(id), version, of: query.get('m') ?? '', attempts: decodeURIComponent(attempts) };
}

/** The address that shows it. */
export function addressOf({ id, version, of, attempts }: Shown): string {
  const drawer = attempts && `/attempts/${encodeURIComponent(attempts)}`;
  const query = version > 0 ? `?v=${version}${of && `&m=${encodeURIComponent(of)}`}` : '';
  return `/s/${encodeURIComponent(id)}${drawer}${query}`;
}

/** The operator message whose attempts are shown; empty: none are. */
export const drawerOf = (route: Route): string => (route.name === 'session' ? route.attempts : '');
