import { useEffect, useState } from 'preact/hooks';

/** Copies text, and says so. There is none where the browser gives a page no clipboard. */
export function Copy({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(0);
  useEffect(() => {
    if (done === 0) return;
    const timer = setTimeout(() => setDone(0), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  if (!navigator.clipboard) return null;
  const copy = () => navigator.clipboard.writeText(text).then(() => setDone(done + 1));
  return (
    <button type="button" class="text" onClick={() => void copy()}>
      {done > 0 ? 'Copied' : label}
    </button>
  );
}
