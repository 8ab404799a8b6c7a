// Modal dialogs: the browser's `dialog` element keeps the focus inside, and Escape closes it.
import { type ReactNode, useEffect, useRef } from "react";

/** A modal dialog with an accessible name; a click outside of it closes it. */
export function Dialog({ label, onClose, children }: { label: string; onClose: () => void; children: ReactNode }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = box.current;
    if (dialog && !dialog.open) dialog.showModal();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape already closes the dialog
    <dialog ref={box} aria-label={label} onClose={onClose} onClick={(e) => e.target === box.current && box.current?.close()}>
      {children}
    </dialog>
  );
}
