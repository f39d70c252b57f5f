import type { App } from '../store';
import type { Model } from '../types';
import { modelName } from '../words';

interface Props {
  app: App;
  model: string;
  disabled: boolean;
  onModel: (model: string) => void;
}

/** Chooses a model or a chain. */
export function ModelPicker({ app, model, disabled, onModel }: Props) {
  const models = app.models?.models ?? [];
  const chains = app.models?.chains ?? [];
  const known = models.some((m) => m.name === model) || chains.some((c) => c.name === model);
  const providers = [...new Set(models.map((m) => m.provider))];
  return (
    <label class="picker">
      <span class="hidden">Model</span>
      <select value={model} disabled={disabled} title={disabled ? 'Stop the run to change the model' : 'Model'} onChange={(e) => onModel(e.currentTarget.value)}>
        {!known && <option value={model}>{model ? modelName(model) : 'default model'}</option>}
        {chains.length > 0 && (
          <optgroup label="Chains">
            {chains.map((c) => (
              <option key={c.name} value={c.name}>
                {c.name}
              </option>
            ))}
          </optgroup>
        )}
        {providers.map((p) => (
          <optgroup key={p} label={p}>
            {models
              .filter((m) => m.provider === p)
              .map((m) => (
                <option key={m.name} value={m.name}>
                  {modelName(m.name)}
                </option>
              ))}
          </optgroup>
        ))}
      </select>
    </label>
  );
}

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
export function rehearsals(models: Model[]): (Rehearsal & { model: string })[] {
  return tour.flatMap((r) => {
    const model = models.find((m) => m.name.endsWith(`/${r.script}`) && m.name.startsWith('rehearsal'));
    return model ? [{ ...r, model: model.name }] : [];
  });
}
