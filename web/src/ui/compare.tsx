import { useMemo } from 'preact/hooks';
import { diff, rows, type Piece } from '../diff';
import type { Store } from '../store';
import { textOf } from '../types';
import type { Turn } from '../view';
import { count } from '../words';
import { Dialog } from './dialog';
import { useMedia } from './hooks';
import { currentText } from './turn';

/** What differs between an earlier reply and the current one: side by side where there is room. */
export function Compare({ store, turn, version }: { store: Store; turn: Turn; version: number }) {
  const narrow = useMedia('(max-width: 720px)');
  const before = turn.versions[version - 1]!.rows.map((m) => textOf(m.parts)).filter(Boolean).join('\n\n');
  const after = currentText(turn);
  const pieces = useMemo(() => diff(before, after), [before, after]);
  const all = turn.versions.length + 1;
  const gone = words(pieces, 'gone');
  const fresh = words(pieces, 'new');
  return (
    <Dialog onClose={() => store.closeDialog()} title={`Version ${version} and version ${all}, the current one`} class="compare" describedBy="compare-sum">
      <p class="soft" id="compare-sum">
        {gone + fresh === 0 ? 'The words are the same.' : `${count(gone, 'word')} gone, ${count(fresh, 'word')} new.`}
      </p>
      <div class="compare-body" tabIndex={0} role="group" aria-label="Differences">
        {narrow ? (
          <div class="compare-text">
            <Pieces of={pieces} />
          </div>
        ) : (
          <table>
            <thead>
              <tr>
                <th scope="col">Version {version}</th>
                <th scope="col">Version {all}</th>
              </tr>
            </thead>
            <tbody>
              {rows(pieces).map((r, i) => (
                <tr key={i}>
                  <td class="compare-text">
                    <Pieces of={r.before} />
                  </td>
                  <td class="compare-text">
                    <Pieces of={r.after} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </Dialog>
  );
}

const words = (pieces: Piece[], kind: Piece['kind']): number =>
  pieces.filter((p) => p.kind === kind).reduce((n, p) => n + (p.text.match(/[\p{L}\p{M}\p{N}_]+/gu)?.length ?? 0), 0);

function Pieces({ of }: { of: Piece[] }) {
  return (
    <>
      {of.map((p, i) => (p.kind === 'gone' ? <del key={i}>{p.text}</del> : p.kind === 'new' ? <ins key={i}>{p.text}</ins> : <span key={i}>{p.text}</span>))}
    </>
  );
}
