import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: { environment: 'happy-dom', include: ['test/**/*.test.{ts,tsx}'], testTimeout: 30_000 },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
});
