// Everything by typing: pages, and vertices by their names.
import { useEffect, useState } from "react";
import { get, type Schemas } from "../api/client";
import { Icon, TypeIcon } from "../common/icons";
import { target } from "../common/Vertex";
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

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Entry[]>([]);
  const [at, setAt] = useState(0);
  useEffect(() => {
    setAt(0);
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
                    : target(item.name),
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
  const pages: Entry[] = PAGES.filter((p) => `${p.title} ${p.says}`.toLowerCase().includes(lower)).map((p) => ({
    key: p.page,
    to: href(p.page),
    icon: <Icon name={p.icon} />,
    label: p.title,
    detail: p.says,
  }));
  const all = [...pages, ...found];
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
        aria-activedescendant={all[at] ? `palette-${at}` : undefined}
        placeholder="A page, a path, a run, a user…"
        style={{ width: "100%", marginBottom: 8 }}
        value={text}
        autoFocus
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "ArrowDown" || e.key === "ArrowUp") {
            e.preventDefault();
            setAt((n) => Math.max(0, Math.min(all.length - 1, n + (e.key === "ArrowDown" ? 1 : -1))));
          } else if (e.key === "Enter") {
            e.preventDefault();
            open(all[at]);
          }
        }}
      />
      <div
        id="palette-list"
        role="listbox"
        aria-label="Places"
        className="pop"
        style={{ position: "static", boxShadow: "none", border: 0, maxHeight: 360 }}
      >
        {all.map((entry, n) => (
          <div
            key={entry.key}
            id={`palette-${n}`}
            role="option"
            tabIndex={-1}
            aria-selected={n === at}
            onPointerEnter={() => setAt(n)}
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
