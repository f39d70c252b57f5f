import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface Item {
  text: string;
  act: () => void;
}

interface Props {
  label?: string; // of a button whose content does not say it
  class: string;
  children: ComponentChildren; // of the button
  items: Item[];
}

/** A button that opens a menu: arrows move in it, Escape leaves it, and the focus comes back. */
export function Menu({ label, class: name, children, items }: Props) {
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const leave = (back: boolean) => {
    setOpen(false);
    if (back) button.current?.focus();
  };
  // It lies above whatever scrolls around it, under its button, or over it where there is more room.
  const place = () => {
    const at = button.current!.getBoundingClientRect();
    const { style, offsetWidth: width, offsetHeight: height } = list.current!;
    const below = at.bottom + 4 + height <= innerHeight;
    style.top = `${below ? at.bottom + 4 : Math.max(4, at.top - 4 - height)}px`;
    style.left = `${Math.max(4, Math.min(at.right - width, innerWidth - width - 4))}px`;
  };
  useLayoutEffect(() => {
    if (!open) return;
    place();
    list.current!.querySelector<HTMLElement>('button')?.focus({ preventScroll: true });
  }, [open]);
  useEffect(() => {
    if (!open) return;
    const outside = (e: Event) => {
      if (!list.current?.contains(e.target as Node) && !button.current?.contains(e.target as Node)) leave(false);
    };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('scroll', outside, true);
    window.addEventListener('resize', place);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('scroll', outside, true);
      window.removeEventListener('resize', place);
    };
  }, [open]);
  const press = (e: KeyboardEvent) => {
    const all = [...list.current!.querySelectorAll<HTMLElement>('button')];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const to: Record<string, number> = { ArrowDown: (at + 1) % all.length, ArrowUp: (at - 1 + all.length) % all.length, Home: 0, End: all.length - 1 };
    if (e.key === 'Escape') leave(true);
    else if (e.key === 'Tab') return leave(true); // on from the button
    else if (e.key in to) all[to[e.key]!]!.focus();
    else return;
    e.preventDefault();
  };
  return (
    <span class="menu">
      <button
        ref={button}
        type="button"
        class={name}
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        onKeyDown={(e) => {
          if (open || e.key !== 'ArrowDown') return;
          e.preventDefault();
          setOpen(true);
        }}
      >
        {children}
      </button>
      {open && (
        <div ref={list} class="menu-list" role="menu" aria-label={label} onKeyDown={press}>
          {items.map((i) => (
            <button
              key={i.text}
              type="button"
              role="menuitem"
              tabIndex={-1}
              onClick={() => {
                leave(true);
                i.act();
              }}
            >
              {i.text}
            </button>
          ))}
        </div>
      )}
    </span>
  );
}
