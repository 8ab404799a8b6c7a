// The dialog that lists the keyboard shortcuts.
import { Dialog } from "./Dialog";

const KEYS: [string, string][] = [
  ["/", "Go to the search box"],
  ["Ctrl K", "Find any page, and anything by its name"],
  ["?", "Show this list"],
  ["Ctrl Enter", "Run the text in the editor"],
  ["Ctrl ↑, Ctrl ↓", "Texts that were run earlier"],
  ["↑ ↓ Page Home End", "Move through a table; Enter selects"],
  ["Escape", "Close the open panel"],
];

/** Dialog with all keyboard shortcuts and their effects. */
export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog label="Keys" onClose={onClose}>
      <h2>Keys</h2>
      <dl className="pairs">
        {KEYS.map(([key, effect]) => (
          <div key={key} style={{ display: "contents" }}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{effect}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog" style={{ marginTop: 16, textAlign: "right" }}>
        <button type="submit">Close</button>
      </form>
    </Dialog>
  );
}
