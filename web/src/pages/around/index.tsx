// The neighbourhood of a vertex, whatever the edges: many dots, and the same as a list.
import { lazy, Suspense, useCallback } from "react";
import { type Schemas, useGet } from "../../api/client";
import { change, go, href, useRoute } from "../../app/router";
import { CopyAs } from "../../common/CopyAs";
import { count } from "../../common/format";
import { TypeIcon } from "../../common/icons";
import { python, shell, travel } from "../../common/quote";
import { SearchBox } from "../../common/SearchBox";
import { Answer, Skeleton } from "../../common/State";
import { type Column, Table } from "../../common/Table";
import { Detail } from "../lineage/Detail";

type Around = Schemas["Neighbourhood"];
type Dot = Around["vertices"][number];
const Dots = lazy(() => import("./Dots"));

const COLUMNS: Column<Dot>[] = [
  {
    name: "Vertex",
    value: (v) => v.label,
    show: (v) => (
      <span title={v.id}>
        <TypeIcon type={v.type} /> {v.label}
      </span>
    ),
    width: "minmax(140px, 3fr)",
  },
  { name: "Edges", value: (v) => v.degree, number: true, width: "64px" },
  { name: "Steps", value: (v) => v.depth, number: true, width: "64px" },
];

export default function AroundPage() {
  const { params } = useRoute();
  const id = params.get("id") ?? "";
  const depth = Number(params.get("depth") ?? 2);
  const limit = Number(params.get("limit") ?? 5000);
  const around = useGet<Around>(id ? "/api/v1/view/neighbourhood" : null, { id, depth, limit });
  const chosen = params.get("sel");
  const choose = useCallback((sel: string) => change({ sel }, true), []);
  if (!id) {
    return (
      <div style={{ padding: 24 }}>
        <h1>Neighbourhood</h1>
        <p className="muted">
          All that hangs together with a file, a run, a user or an object, whatever the edges: which shall it be?
        </p>
        <SearchBox
          label="Neighbourhood of"
          placeholder="A path, a run, a user"
          autoFocus
          onSearch={(q) => go("search", { q })}
          onPick={(i) => go("around", { id: i.name })}
        />
      </div>
    );
  }
  const chain = `v(${travel(id)})${".e().v()".repeat(depth)}`;
  return (
    <>
      <div className="head">
        <h1 className="clip" style={{ maxWidth: 480 }} title={id}>
          Around {id.slice(id.indexOf(":") + 1)}
        </h1>
        <label>
          Steps
          <select value={depth} onChange={(e) => change({ depth: e.target.value })}>
            {[1, 2, 3, 4, 5, 6].map((n) => (
              <option key={n}>{n}</option>
            ))}
          </select>
        </label>
        <label>
          At most
          <select value={limit} onChange={(e) => change({ limit: e.target.value })}>
            {[500, 2000, 5000, 10_000, 20_000].map((n) => (
              <option key={n} value={n}>
                {count(n)}
              </option>
            ))}
          </select>
        </label>
        {around.data && (
          <span className="muted small" role="status">
            {count(around.data.vertices.length)} vertices, {count(around.data.edges.length)} edges
            {around.data.held_back > 0 &&
              `; ${around.data.held_back_more ? "more than " : ""}${count(around.data.held_back)} vertices held back`}
            {around.data.edges_held_back > 0 && `, ${count(around.data.edges_held_back)} edges held back`}
          </span>
        )}
        <div className="grow" />
        <a href={href("lineage", { id })}>Lineage</a>
        <CopyAs ways={{ CLI: `esker travel T ${shell(chain)}`, Python: `db.travel(${python(chain)})`, Travel: chain }} />
      </div>
      <div className="split">
        <div className="canvas">
          <Answer of={around}>
            {(data) => (
              <Suspense fallback={<Skeleton />}>
                <Dots vertices={data.vertices} edges={data.edges} types={data.types} chosen={chosen} onChoose={choose} />
              </Suspense>
            )}
          </Answer>
        </div>
        <aside className="side" aria-label="Vertices">
          {around.data && (
            <Table
              label="Vertices of the neighbourhood"
              columns={COLUMNS}
              rows={around.data.vertices}
              height={320}
              id={(v) => v.id}
              selected={chosen}
              onSelect={(v) => choose(v.id)}
            />
          )}
          {chosen && <Detail id={chosen} asOf="" focus={id} box={null} onSplit={() => {}} />}
        </aside>
      </div>
    </>
  );
}
