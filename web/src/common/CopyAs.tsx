// The same question for a terminal, a program, a traversal: what a page shows can be had without it.
import { useEffect, useRef, useState } from "react";
import { named, useTarget } from "../app/session";
import { Icon } from "./icons";

export type Ways = Partial<Record<"CLI" | "Python" | "Travel" | "SPARQL" | "HTTP" | "Link", string>>;

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages that came over plain HTTP from elsewhere have no clipboard of their own.
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function CopyAs({ ways }: { ways: Ways }) {
  const [open, setOpen] = useState(false);
  const [done, setDone] = useState("");
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const close = (e: Event) => {
      if (e instanceof KeyboardEvent ? e.key === "Escape" : !box.current?.contains(e.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", close);
    document.addEventListener("keydown", close);
    return () => {
      document.removeEventListener("pointerdown", close);
      document.removeEventListener("keydown", close);
    };
  }, [open]);
  const target = useTarget();
  const all: [string, string][] = [
    ...Object.entries(ways).map(([way, text]): [string, string] => [way, named(way, text, target)]),
    ["Link", window.location.href],
  ];
  return (
    <div ref={box} style={{ position: "relative" }}>
      <button type="button" aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={done ? "ok" : "copy"} /> {done ? `${done} copied` : "Copy as"}
      </button>
      {open && (
        <div className="pop" role="menu" aria-label="Copy as" style={{ right: 0, top: 34, width: 460, maxWidth: "80vw" }}>
          {all.map(([name, text]) => (
            <button
              key={name}
              type="button"
              role="menuitem"
              onClick={async () => {
                if (await copy(text)) {
                  setDone(name);
                  window.setTimeout(() => setDone(""), 1500);
                }
                setOpen(false);
              }}
            >
              <span style={{ width: 64, flex: "none" }}>{name}</span>
              <code className="clip muted">{text.split("\n").at(-1)}</code>
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
