import type { Part, Run, Schedule, ToolCall, ToolProgress } from './api.gen';

// The JSON of the API. Times are milliseconds since 1970 (absent: none) but for those of
// failures and decisions inside attempts, which are RFC 3339.

export type {
  Attempt, Chain, ClientKey, CoolOff, Cost, Decision, Event as ServerEvent, Failure, Fence, GatewayCall, Message, Model, ModelList, Outcome, Output, OutputEvent as StreamEvent, Part, Pending, Preview, Progress,
  ProviderFailure, Receipt, Recovery, Run, Schedule, Session, Setting, SettingList, Settings, Snapshot, Spend, System, ToolCall, ToolProgress,
} from './api.gen';

/** A tool call, and how far it is while it runs. */
export type Call = ToolCall & { progress?: ToolProgress };

/** Whether something will start by itself. */
export const waits = (s?: Schedule): boolean => s?.state === 'armed' || s?.state === 'scheduled' || s?.state === 'held';

export const ended = (run?: Run): boolean => !!run && run.state !== 'queued' && run.state !== 'running';

export const textOf = (parts: Part[] | null | undefined): string =>
  (parts ?? []).filter((p) => p.kind === 'text').map((p) => p.text ?? '').join('\n\n');
