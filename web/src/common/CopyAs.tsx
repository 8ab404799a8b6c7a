// The menu “Copy as”: the content of a page as a command, a Python program, a traversal, a query, a request or an address.
import { useEffect, useRef, useState } from "react";
import { useTarget, withTarget } from "../app/session";
import { Icon } from "./icons";

/** Texts to copy, by format. `T` stands for the target in commands. */
export type CopyFormats = Partial<Record<"CLI" | "Python" | "Travel" | "SPARQL" | "HTTP" | "Link", string>>;

/** Copies a text to the clipboard, and returns whether that succeeded. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers give pages from other hosts over plain HTTP no clipboard API.
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

/** Button with a menu that copies one of the formats, or the address of the page. */
export function CopyAs({ formats }: { formats: CopyFormats }) {
  const [open, setOpen] = useState(false);
  const [copied, setCopied] = useState("");
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
  const entries: [string, string][] = [
    ...Object.entries(formats).map(([format, text]): [string, string] => [format, withTarget(format, text, target)]),
    ["Link", window.location.href],
  ];
  return (
    <div ref={box} style={{ position: "relative" }}>
      <button type="button" aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={copied ? "ok" : "copy"} /> {copied ? `${copied} copied` : "Copy as"}
      </button>
      {open && (
        <div className="pop" role="menu" aria-label="Copy as" style={{ right: 0, top: 34, width: 460, maxWidth: "80vw" }}>
          {entries.map(([name, text]) => (
            <button
              key={name}
              type="button"
              role="menuitem"
              onClick={async () => {
                if (await copy(text)) {
                  setCopied(name);
                  window.setTimeout(() => setCopied(""), 1500);
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
