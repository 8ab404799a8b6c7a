// Command palette: pages by title, and vertices by name.
import { useEffect, useState } from "react";
import { get, type Schemas } from "../api/client";
import { Icon, TypeIcon } from "../common/icons";
import { vertexHref } from "../common/Vertex";
import { PAGES } from "./App";
import { Dialog } from "./Dialog";
import { href } from "./router";

interface Entry {
  key: string;
  to: string;
  icon: React.ReactNode;
  label: string;
  detail: string;
}

/** Dialog that opens a page or a vertex by a part of its name. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Entry[]>([]);
  const [active, setActive] = useState(0);
  useEffect(() => {
    setActive(0);
    if (text.trim() === "") {
      setFound([]);
      return;
    }
    const stop = new AbortController();
    const timer = window.setTimeout(() => {
      get<Schemas["Suggestions"]>("/api/v1/suggest", { q: text, limit: 10 }, stop.signal)
        .then(({ items }) =>
          setFound(
            items.map((item) => ({
              key: `${item.kind} ${item.name}`,
              to:
                item.kind === "tag"
                  ? href("tags", { name: item.name })
                  : item.kind === "type"
                    ? href("search", { type: item.name })
                    : vertexHref(item.name),
              icon: item.kind === "tag" ? <Icon name="tags" /> : <TypeIcon type={item.type} />,
              label: item.label,
              detail: item.detail,
            })),
          ),
        )
        .catch(() => setFound([]));
    }, 80);
    return () => {
      window.clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  const lower = text.trim().toLowerCase();
  const pages: Entry[] = PAGES.filter((p) => `${p.title} ${p.description}`.toLowerCase().includes(lower)).map((p) => ({
    key: p.page,
    to: href(p.page),
    icon: <Icon name={p.icon} />,
    label: p.title,
    detail: p.description,
  }));
  const entries = [...pages, ...found];
  const open = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    window.location.hash = entry.to;
  };
  return (
    <Dialog label="Go to" onClose={onClose}>
      <input
        type="text"
        role="combobox"
        aria-label="Go to"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={entries[active] ? `palette-${active}` : undefined}
        placeholder="A page, a path, a run, a user…"
        style={{ width: "100%", marginBottom: 8 }}
        value={text}
        autoFocus
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "ArrowDown" || e.key === "ArrowUp") {
            e.preventDefault();
            setActive((n) => Math.max(0, Math.min(entries.length - 1, n + (e.key === "ArrowDown" ? 1 : -1))));
          } else if (e.key === "Enter") {
            e.preventDefault();
            open(entries[active]);
          }
        }}
      />
      <div
        id="palette-list"
        role="listbox"
        aria-label="Pages and vertices"
        className="pop"
        style={{ position: "static", boxShadow: "none", border: 0, maxHeight: 360 }}
      >
        {entries.map((entry, n) => (
          <div
            key={entry.key}
            id={`palette-${n}`}
            role="option"
            tabIndex={-1}
            aria-selected={n === active}
            onPointerEnter={() => setActive(n)}
            onPointerDown={(e) => {
              e.preventDefault();
              open(entry);
            }}
          >
            {entry.icon}
            <span style={{ flex: "none" }}>{entry.label}</span>
            <span className="clip muted small">{entry.detail}</span>
          </div>
        ))}
      </div>
    </Dialog>
  );
}
