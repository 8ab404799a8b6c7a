// The page Space: bytes and files by directory, as a treemap and a table, or by user, project, extension, kind and age.
import { useEffect, useMemo, useRef, useState } from "react";
import { type Schemas, useGet } from "../../api/client";
import { change, useRoute } from "../../app/router";
import { CopyAs } from "../../common/CopyAs";
import { Await, Empty } from "../../common/Feedback";
import { bytes, count } from "../../common/format";
import { Icon } from "../../common/icons";
import { shell } from "../../common/quote";
import { type Column, Table } from "../../common/Table";
import { squarify } from "./squarify";

type Space = Schemas["SpaceView"];
type Directory = Schemas["SpaceDirectory"];
type Row = Space["rows"][number];

const BY: [string, string][] = [
  ["dir", "Directory"],
  ["user", "User"],
  ["project", "Project"],
  ["type", "Extension"],
  ["kind", "Kind"],
  ["age", "Age"],
];

/** Page Space; parameters `by` and, for directories, `path`. */
export default function SpacePage() {
  const { params } = useRoute();
  const by = params.get("by") ?? "dir";
  const path = params.get("path") ?? "/";
  const space = useGet<Space>("/api/v1/view/space", by === "dir" ? { path, depth: 5 } : { by });
  const flag = { dir: "dir", user: "user", project: "project", type: "type", kind: "kind", age: "age" }[by] ?? "dir";
  return (
    <>
      <div className="head">
        <h1>Space</h1>
        <div className="tabs" role="tablist" aria-label="By">
          {BY.map(([key, name]) => (
            <button
              key={key}
              type="button"
              role="tab"
              aria-selected={key === by}
              onClick={() => change({ by: key === "dir" ? null : key, path: null })}
            >
              {name}
            </button>
          ))}
        </div>
        <div className="grow" />
        <CopyAs
          formats={{
            CLI: by === "dir" ? `esker du T ${shell(path)} --depth 2` : `esker top T --by ${flag}`,
            HTTP:
              by === "dir"
                ? `GET /api/v1/files/usage?path=${encodeURIComponent(path)}&depth=2`
                : `GET /api/v1/view/space?by=${by}`,
          }}
        />
      </div>
      <Await request={space} rows={10}>
        {(data) =>
          data.files === 0 && data.bytes === 0 ? (
            <Empty command="esker import tree T /project        # imports the metadata of a directory tree&#10;esker mount T /mnt/lab       # mounts the namespace, to create files in it">
              There are no files in the namespace{path === "/" || by !== "dir" ? "" : ` below ${path}`}. This page counts only
              files in directories of the namespace; files that runs used are vertices of the graph:
            </Empty>
          ) : data.root ? (
            <Tree root={firstBranching(data.root)} path={path} />
          ) : (
            <Totals space={data} by={by} />
          )
        }
      </Await>
    </>
  );
}

/** Links to the directories on the path. */
function Breadcrumbs({ path }: { path: string }) {
  const parts = path.split("/").filter(Boolean);
  return (
    <nav aria-label="Path" className="row" style={{ gap: 4, marginBottom: 8 }}>
      <button type="button" className="link" onClick={() => change({ path: null })}>
        /
      </button>
      {parts.map((part, n) => {
        const to = `/${parts.slice(0, n + 1).join("/")}`;
        return (
          <span key={to}>
            <button type="button" className="link" onClick={() => change({ path: to })}>
              {part}
            </button>
            {n + 1 < parts.length && " /"}
          </span>
        );
      })}
    </nav>
  );
}

/** Skips directories whose only content is one directory, because their treemap has one rectangle. */
export function firstBranching(root: Directory): Directory {
  let directory = root;
  for (;;) {
    const [only, ...others] = directory.children;
    if (!only || others.length > 0 || directory.own_bytes > 0 || only.children.length === 0) return directory;
    directory = only;
  }
}

/** A rectangle of the treemap; `path` is null if it is not a directory. */
interface Item {
  name: string;
  path: string | null;
  bytes: number;
  files: number;
  children: Item[];
}

/** Returns the rectangles of a directory, largest first: its directories, its own files, and the directories that the server summed up. */
export function treemapItems(directory: Directory): Item[] {
  const items: Item[] = directory.children.map((d) => ({
    name: d.name,
    path: d.path,
    bytes: d.bytes,
    files: d.files,
    children: treemapItems(d),
  }));
  if (directory.own_bytes > 0)
    items.push({ name: "own files", path: null, bytes: directory.own_bytes, files: 0, children: [] });
  const { rest } = directory;
  if (rest) items.push({ name: `${count(rest.count)} more`, path: null, bytes: rest.bytes, files: rest.files, children: [] });
  return items.filter((i) => i.bytes > 0).sort((a, b) => b.bytes - a.bytes);
}

function Tree({ root, path }: { root: Directory; path: string }) {
  const rows = root.children;
  return (
    <>
      <Breadcrumbs path={root.path === "/" ? path : root.path} />
      <p className="muted">
        {bytes(root.bytes)} ({count(root.bytes)} bytes) in {count(root.files)} files and {count(root.directories)} directories
      </p>
      <div className="grid">
        <section className="card s7" aria-label="Treemap" style={{ padding: 8 }}>
          <Treemap items={treemapItems(root)} />
        </section>
        <section className="s5" aria-label="Directories" style={{ minWidth: 0 }}>
          <Table
            label="Directories"
            columns={DIRECTORIES}
            rows={rows}
            height={440}
            id={(d) => d.path}
            onSelect={(d) => change({ path: d.path })}
          />
        </section>
      </div>
    </>
  );
}

const DIRECTORIES: Column<Directory>[] = [
  {
    name: "Directory",
    value: (d) => d.name,
    show: (d) => (
      <>
        <Icon name="dir" className="t-dir" /> {d.name}
      </>
    ),
    width: "minmax(120px, 2fr)",
  },
  { name: "Bytes", value: (d) => d.bytes, show: (d) => bytes(d.bytes), number: true, width: "96px" },
  { name: "Files", value: (d) => d.files, show: (d) => count(d.files), number: true, width: "90px" },
  { name: "Directories", value: (d) => d.directories, show: (d) => count(d.directories), number: true, width: "100px" },
];

const COLOURS = ["t-data", "t-run", "t-user", "t-exe", "t-dir", "t-object"];

function Treemap({ items }: { items: Item[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(640);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  const height = 440;
  const rects = squarify(
    items.map((i) => i.bytes),
    { x: 0, y: 0, w: width, h: height },
  );
  return (
    <div ref={box} style={{ position: "relative", height }}>
      {items.map((item, n) => {
        const rect = rects[n];
        if (!rect || rect.w < 2 || rect.h < 2) return null;
        const colour = COLOURS[n % COLOURS.length];
        const inner = squarify(
          item.children.map((c) => c.bytes),
          { x: 4, y: 22, w: rect.w - 8, h: rect.h - 26 },
        );
        const label = `${item.name}, ${bytes(item.bytes)}`;
        return (
          <button
            type="button"
            key={item.name}
            title={`${item.path ?? item.name}: ${bytes(item.bytes)} (${count(item.bytes)} bytes), ${count(item.files)} files`}
            aria-label={label}
            disabled={item.path === null}
            onClick={() => item.path !== null && change({ path: item.path })}
            style={{
              position: "absolute",
              left: rect.x,
              top: rect.y,
              width: rect.w - 2,
              height: rect.h - 2,
              padding: 0,
              minHeight: 0,
              borderRadius: 4,
              overflow: "hidden",
              border: `1.5px solid var(--${colour})`,
              background: "var(--bg-2)",
              opacity: 1,
            }}
          >
            {rect.w > 50 && rect.h > 20 && (
              <span
                className="clip small"
                style={{ position: "absolute", left: 6, top: 2, right: 4, textAlign: "left", color: "var(--fg)" }}
              >
                <strong>{item.name}</strong> {rect.w > 120 && bytes(item.bytes)}
              </span>
            )}
            {rect.w > 60 &&
              rect.h > 60 &&
              item.children.map((child, i) => {
                const r = inner[i];
                if (!r || r.w < 4 || r.h < 4) return null;
                return (
                  <span
                    key={child.name}
                    style={{
                      position: "absolute",
                      left: r.x,
                      top: r.y,
                      width: r.w - 2,
                      height: r.h - 2,
                      background: "var(--bg-3)",
                      border: `1px solid var(--${colour})`,
                      borderRadius: 3,
                      fontSize: 11,
                      overflow: "hidden",
                      color: "var(--fg)",
                    }}
                  >
                    {r.w > 60 && r.h > 16 ? child.name : ""}
                  </span>
                );
              })}
          </button>
        );
      })}
    </div>
  );
}

const totalColumns = (by: string): Column<Row>[] => [
  { name: by === "age" ? "Last change" : "Name", value: (r) => day(r.name, by), width: "minmax(140px, 2fr)" },
  { name: "Bytes", value: (r) => r.bytes, show: (r) => bytes(r.bytes), number: true, width: "110px" },
  { name: "Files", value: (r) => r.files, show: (r) => count(r.files), number: true, width: "110px" },
];

/** Formats days since 1970 as a date; other names stay as they are. */
export function day(name: string, by: string): string {
  const days = Number(name);
  return by === "age" && name !== "" && Number.isInteger(days) ? new Date(days * 86_400_000).toISOString().slice(0, 10) : name;
}

function Totals({ space, by }: { space: Space; by: string }) {
  const columns = useMemo(() => totalColumns(by), [by]);
  const most = Math.max(1, ...space.rows.map((r) => r.bytes));
  return (
    <>
      <p className="muted">
        {bytes(space.bytes)} in {count(space.files)} files{space.cut && "; only the first rows are shown"}
        {by === "project" && ". Projects are the directories directly below the root."}
      </p>
      <div className="grid">
        <section className="card s7" aria-label="Bars">
          {[...space.rows]
            .sort((a, b) => (by === "age" ? Number(b.name) - Number(a.name) : b.bytes - a.bytes))
            .slice(0, 20)
            .map((row) => (
              <div key={row.name} className="row" style={{ padding: "3px 0" }}>
                <span className="clip" style={{ width: 150 }} title={row.name}>
                  {day(row.name, by) || "(none)"}
                </span>
                <div className="bar" style={{ flex: 1, height: 12 }} aria-hidden="true">
                  <span style={{ width: `${(100 * row.bytes) / most}%` }} />
                </div>
                <span style={{ width: 90, textAlign: "right" }}>{bytes(row.bytes)}</span>
              </div>
            ))}
        </section>
        <section className="s5" aria-label="Totals" style={{ minWidth: 0 }}>
          <Table label="Totals" columns={columns} rows={space.rows} height={420} id={(r) => r.name} />
        </section>
      </div>
    </>
  );
}
