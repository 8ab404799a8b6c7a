// A table of any length: only the rows that are seen are there. Sorted by a click on a column, walked by the arrow keys.
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useMemo, useRef, useState } from "react";
import { copy } from "./CopyAs";
import { count } from "./format";
import { csv } from "./quote";

export interface Column<R> {
  name: string;
  /** What it is sorted and copied by. */
  value: (row: R) => unknown;
  show?: (row: R) => ReactNode;
  width?: string;
  number?: boolean;
}

interface Props<R> {
  label: string;
  columns: Column<R>[];
  rows: readonly R[];
  height?: number;
  id?: (row: R) => string;
  selected?: string | null;
  onSelect?: (row: R) => void;
  /** What stands beside the number of rows. */
  more?: ReactNode;
}

const ROW = 30;

export function compare(a: unknown, b: unknown): number {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  const [x, y] = [String(a), String(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

export function toCsv<R>(columns: Column<R>[], rows: readonly R[]): string {
  const lines = [columns.map((c) => csv(c.name)).join(",")];
  for (const row of rows) lines.push(columns.map((c) => csv(c.value(row))).join(","));
  return `${lines.join("\n")}\n`;
}

export function Table<R>({ label, columns, rows, height = 480, id, selected, onSelect, more }: Props<R>) {
  const [by, setBy] = useState<{ column: number; up: boolean } | null>(null);
  const [at, setAt] = useState(0);
  const [copied, setCopied] = useState(false);
  const body = useRef<HTMLDivElement>(null);
  const sorted = useMemo(() => {
    const column = by && columns[by.column];
    if (!column) return rows;
    const keyed = rows.map((row) => [column.value(row), row] as const);
    // What has no value is last either way.
    const none = (v: unknown) => v === null || v === undefined;
    keyed.sort((a, b) => (by.up || none(a[0]) || none(b[0]) ? compare(a[0], b[0]) : compare(b[0], a[0])));
    return keyed.map(([, row]) => row);
  }, [rows, by, columns]);
  const virtual = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => body.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const template = columns.map((c) => c.width ?? "minmax(80px, 1fr)").join(" ");
  const press = (e: KeyboardEvent) => {
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: 15,
      PageUp: -15,
      Home: -sorted.length,
      End: sorted.length,
    };
    const step = steps[e.key];
    const row = sorted[at];
    if (step !== undefined) {
      e.preventDefault();
      const next = Math.max(0, Math.min(sorted.length - 1, at + step));
      setAt(next);
      virtual.scrollToIndex(next);
      const to = sorted[next];
      if (to !== undefined && onSelect && e.shiftKey) onSelect(to);
    } else if (e.key === "Enter" && row !== undefined && onSelect) {
      onSelect(row);
    }
  };
  const most = Math.min(height, sorted.length * ROW + 2);
  return (
    <div>
      <div className="vtable" role="table" aria-label={label} aria-rowcount={sorted.length + 1}>
        <div className="tablewrap">
          <div style={{ minWidth: columns.length * 84 }}>
            <div role="rowgroup">
              <div className="vhead" role="row" tabIndex={-1} style={{ gridTemplateColumns: template }}>
                {columns.map((column, n) => {
                  const sort = by?.column === n ? (by.up ? "ascending" : "descending") : "none";
                  return (
                    <div key={column.name} role="columnheader" tabIndex={-1} aria-sort={sort}>
                      <button
                        type="button"
                        style={{ textAlign: column.number ? "right" : "left" }}
                        onClick={() =>
                          setBy(by?.column === n ? (by.up ? null : { column: n, up: true }) : { column: n, up: !column.number })
                        }
                      >
                        {column.name}
                        {sort === "ascending" ? " ↑" : sort === "descending" ? " ↓" : ""}
                      </button>
                    </div>
                  );
                })}
              </div>
            </div>
            <div
              className="vbody"
              ref={body}
              role="rowgroup"
              // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is to be reached by the keyboard
              tabIndex={0}
              aria-label={`Rows of ${label}`}
              style={{ height: most }}
              onKeyDown={press}
            >
              <div role="presentation" style={{ height: virtual.getTotalSize(), position: "relative" }}>
                {virtual.getVirtualItems().map((item) => {
                  const row = sorted[item.index];
                  if (row === undefined) return null;
                  const name = id?.(row);
                  const chosen = name !== undefined && name === selected;
                  return (
                    // biome-ignore lint/a11y/useKeyWithClickEvents: the group that it lies in takes the keys
                    <div
                      key={item.key}
                      role="row"
                      tabIndex={-1}
                      aria-rowindex={item.index + 2}
                      className={`vrow${chosen ? " selected" : ""}`}
                      style={{
                        gridTemplateColumns: template,
                        height: ROW,
                        transform: `translateY(${item.start}px)`,
                        outline: item.index === at && onSelect ? "1px dotted var(--line)" : undefined,
                        cursor: onSelect ? "pointer" : undefined,
                      }}
                      onClick={() => {
                        setAt(item.index);
                        onSelect?.(row);
                      }}
                    >
                      {columns.map((column) => {
                        const value = column.value(row);
                        const text =
                          value === null || value === undefined
                            ? ""
                            : typeof value === "object"
                              ? JSON.stringify(value)
                              : String(value);
                        return (
                          <div
                            key={column.name}
                            role="cell"
                            title={text}
                            style={{ textAlign: column.number ? "right" : "left" }}
                          >
                            {column.show ? column.show(row) : text}
                          </div>
                        );
                      })}
                    </div>
                  );
                })}
              </div>
            </div>
          </div>
        </div>
      </div>
      <div className="row between small muted" style={{ padding: "6px 2px" }}>
        <span>
          {count(sorted.length)} {sorted.length === 1 ? "row" : "rows"} {more}
        </span>
        <button
          type="button"
          className="link small"
          onClick={async () => {
            setCopied(await copy(toCsv(columns, sorted)));
            window.setTimeout(() => setCopied(false), 1500);
          }}
        >
          {copied ? "Copied" : "Copy as CSV"}
        </button>
      </div>
    </div>
  );
}
