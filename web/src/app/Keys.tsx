// Which keys do what.
import { Dialog } from "./Dialog";

const KEYS: [string, string][] = [
  ["/", "Search"],
  ["Ctrl K", "All pages, and anything by its name"],
  ["?", "This list"],
  ["Ctrl Enter", "Run what is in the editor"],
  ["Ctrl ↑, Ctrl ↓", "What was run before"],
  ["↑ ↓ Page Home End", "Go through a table; Enter chooses"],
  ["Escape", "Close what is open"],
];

export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog label="Keys" onClose={onClose}>
      <h2>Keys</h2>
      <dl className="pairs">
        {KEYS.map(([key, says]) => (
          <div key={key} style={{ display: "contents" }}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{says}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog" style={{ marginTop: 16, textAlign: "right" }}>
        <button type="submit">Close</button>
      </form>
    </Dialog>
  );
}
