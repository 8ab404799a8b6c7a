// Table of any length: the page contains only the visible rows. A click on a column sorts it; the arrow keys move through it.
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useMemo, useRef, useState } from "react";
import { copy } from "./CopyAs";
import { count } from "./format";
import { csv } from "./quote";

/** A column of a table of rows `R`; `width` is a CSS grid track. */
export interface Column<R> {
  name: string;
  /** Value for sorting and copying, and for display where `show` is absent. */
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
  /** Content after the number of rows. */
  footer?: ReactNode;
}

/** Height of a row in pixels. */
const ROW = 30;

/** Orders numbers by value, other values as text, and missing values last. */
export function compare(a: unknown, b: unknown): number {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  const [x, y] = [String(a), String(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

/** Returns the rows as CSV, with a header line. */
export function toCsv<R>(columns: Column<R>[], rows: readonly R[]): string {
  const lines = [columns.map((c) => csv(c.name)).join(",")];
  for (const row of rows) lines.push(columns.map((c) => csv(c.value(row))).join(","));
  return `${lines.join("\n")}\n`;
}

/** Sortable table; `height` is the maximum in pixels, `selected` the id of the marked row. */
export function Table<R>({ label, columns, rows, height = 480, id, selected, onSelect, footer }: Props<R>) {
  const [order, setOrder] = useState<{ column: number; up: boolean } | null>(null);
  const [active, setActive] = useState(0);
  const [copied, setCopied] = useState(false);
  const body = useRef<HTMLDivElement>(null);
  const sorted = useMemo(() => {
    const column = order && columns[order.column];
    if (!column) return rows;
    const keyed = rows.map((row) => [column.value(row), row] as const);
    const missing = (v: unknown) => v === null || v === undefined;
    keyed.sort((a, b) => (order.up || missing(a[0]) || missing(b[0]) ? compare(a[0], b[0]) : compare(b[0], a[0])));
    return keyed.map(([, row]) => row);
  }, [rows, order, columns]);
  const virtual = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => body.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const template = columns.map((c) => c.width ?? "minmax(80px, 1fr)").join(" ");
  const onKeyDown = (e: KeyboardEvent) => {
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: 15,
      PageUp: -15,
      Home: -sorted.length,
      End: sorted.length,
    };
    const step = steps[e.key];
    const row = sorted[active];
    if (step !== undefined) {
      e.preventDefault();
      const next = Math.max(0, Math.min(sorted.length - 1, active + step));
      setActive(next);
      virtual.scrollToIndex(next);
      const target = sorted[next];
      if (target !== undefined && onSelect && e.shiftKey) onSelect(target);
    } else if (e.key === "Enter" && row !== undefined && onSelect) {
      onSelect(row);
    }
  };
  const bodyHeight = Math.min(height, sorted.length * ROW + 2);
  return (
    <div>
      <div className="vtable" role="table" aria-label={label} aria-rowcount={sorted.length + 1}>
        <div className="tablewrap">
          <div style={{ minWidth: columns.length * 84 }}>
            <div role="rowgroup">
              <div className="vhead" role="row" tabIndex={-1} style={{ gridTemplateColumns: template }}>
                {columns.map((column, n) => {
                  const sort = order?.column === n ? (order.up ? "ascending" : "descending") : "none";
                  return (
                    <div key={column.name} role="columnheader" tabIndex={-1} aria-sort={sort}>
                      <button
                        type="button"
                        style={{ textAlign: column.number ? "right" : "left" }}
                        onClick={() =>
                          setOrder(
                            order?.column === n
                              ? order.up
                                ? null
                                : { column: n, up: true }
                              : { column: n, up: !column.number },
                          )
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
              // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must reach a scrolling area
              tabIndex={0}
              aria-label={`Rows of ${label}`}
              style={{ height: bodyHeight }}
              onKeyDown={onKeyDown}
            >
              <div role="presentation" style={{ height: virtual.getTotalSize(), position: "relative" }}>
                {virtual.getVirtualItems().map((item) => {
                  const row = sorted[item.index];
                  if (row === undefined) return null;
                  const name = id?.(row);
                  const marked = name !== undefined && name === selected;
                  return (
                    // biome-ignore lint/a11y/useKeyWithClickEvents: the row group handles the keys
                    <div
                      key={item.key}
                      role="row"
                      tabIndex={-1}
                      aria-rowindex={item.index + 2}
                      className={`vrow${marked ? " selected" : ""}`}
                      style={{
                        gridTemplateColumns: template,
                        height: ROW,
                        transform: `translateY(${item.start}px)`,
                        outline: item.index === active && onSelect ? "1px dotted var(--line)" : undefined,
                        cursor: onSelect ? "pointer" : undefined,
                      }}
                      onClick={() => {
                        setActive(item.index);
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
          {count(sorted.length)} {sorted.length === 1 ? "row" : "rows"} {footer}
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
