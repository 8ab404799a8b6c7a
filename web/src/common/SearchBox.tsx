// Search box with suggestions of vertices, tags and types.
import { useEffect, useId, useRef, useState } from "react";
import { get, type Schemas } from "../api/client";
import { Icon, TypeIcon } from "./icons";

type Item = Schemas["Suggestions"]["items"][number];
/** Pause in typing after which suggestions are requested, in milliseconds. */
const DELAY_MS = 90;

interface Props {
  label: string;
  placeholder: string;
  /** Called with the typed text when no suggestion is selected. */
  onSearch: (text: string) => void;
  /** Called with the suggestion that the user picked. */
  onPick: (item: Item) => void;
  initial?: string;
  hotkey?: boolean;
  autoFocus?: boolean;
}

/** Text field with a list of suggestions. With `hotkey`, the key `/` moves the focus to it. */
export function SearchBox({ label, placeholder, onSearch, onPick, initial = "", hotkey, autoFocus }: Props) {
  const [text, setText] = useState(initial);
  const [items, setItems] = useState<Item[]>([]);
  const [active, setActive] = useState(-1);
  const [open, setOpen] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  useEffect(() => setText(initial), [initial]);
  useEffect(() => {
    if (!open || text.trim() === "") {
      setItems([]);
      return;
    }
    const stop = new AbortController();
    const timer = window.setTimeout(() => {
      get<Schemas["Suggestions"]>("/api/v1/suggest", { q: text, limit: 12 }, stop.signal)
        .then((suggestions) => {
          setItems(suggestions.items);
          setActive(-1);
        })
        .catch(() => setItems([]));
    }, DELAY_MS);
    return () => {
      window.clearTimeout(timer);
      stop.abort();
    };
  }, [text, open]);
  useEffect(() => {
    if (!hotkey) return;
    const onKeyDown = (e: KeyboardEvent) => {
      const typing =
        e.target instanceof HTMLElement && (e.target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName));
      if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey) {
        e.preventDefault();
        input.current?.focus();
        input.current?.select();
      }
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [hotkey]);
  useEffect(() => {
    if (autoFocus) input.current?.focus();
  }, [autoFocus]);
  const pick = (item: Item) => {
    setOpen(false);
    setText("");
    input.current?.blur();
    onPick(item);
  };
  const expanded = open && items.length > 0;
  return (
    <search className="search">
      <Icon name="search" />
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label={label}
        aria-expanded={expanded}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={active >= 0 ? `${id}-${active}` : undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder={placeholder}
        value={text}
        onChange={(e) => {
          setText(e.target.value);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => window.setTimeout(() => setOpen(false), 150)}
        onKeyDown={(e) => {
          if (e.key === "ArrowDown" || e.key === "ArrowUp") {
            e.preventDefault();
            const step = e.key === "ArrowDown" ? 1 : -1;
            setActive((n) => Math.max(-1, Math.min(items.length - 1, n + step)));
          } else if (e.key === "Enter") {
            const item = expanded ? items[active] : undefined;
            if (item) pick(item);
            else {
              setOpen(false);
              onSearch(text.trim());
            }
          } else if (e.key === "Escape") {
            setOpen(false);
            input.current?.blur();
          }
        }}
      />
      {hotkey && text === "" && <kbd>/</kbd>}
      <div className="pop" role="listbox" id={`${id}-list`} aria-label="Suggestions" hidden={!expanded}>
        {items.map((item, n) => (
          <div
            key={`${item.kind} ${item.name}`}
            id={`${id}-${n}`}
            role="option"
            tabIndex={-1}
            aria-selected={n === active}
            onPointerDown={(e) => {
              e.preventDefault();
              pick(item);
            }}
            onPointerEnter={() => setActive(n)}
          >
            {item.kind === "tag" ? <Icon name="tags" /> : <TypeIcon type={item.type} />}
            <span className="clip" style={{ maxWidth: 240, flex: "none" }}>
              {item.label}
            </span>
            <span className="clip muted small">{item.detail}</span>
          </div>
        ))}
      </div>
    </search>
  );
}
