// A dialog of the browser's own: it keeps the focus, and Escape closes it.
import { type ReactNode, useEffect, useRef } from "react";

export function Dialog({ label, onClose, children }: { label: string; onClose: () => void; children: ReactNode }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = box.current;
    if (dialog && !dialog.open) dialog.showModal();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it already
    <dialog ref={box} aria-label={label} onClose={onClose} onClick={(e) => e.target === box.current && box.current?.close()}>
      {children}
    </dialog>
  );
}
