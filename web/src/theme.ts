import { device, onDevice } from './device';

/** Keeps the page in the colours that this device has chosen. */
export function followTheme(): void {
  const set = () => {
    const { theme } = device();
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  set();
  onDevice(set);
}
