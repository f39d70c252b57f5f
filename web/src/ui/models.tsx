import type { App } from '../store';
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
