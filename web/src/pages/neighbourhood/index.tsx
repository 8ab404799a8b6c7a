// The page Neighbourhood: all vertices up to a number of steps from one vertex, as a picture and as a table.
import { lazy, Suspense, useCallback } from "react";
import { type Schemas, useGet } from "../../api/client";
import { change, go, href, useRoute } from "../../app/router";
import { CopyAs } from "../../common/CopyAs";
import { Await, Skeleton } from "../../common/Feedback";
import { count } from "../../common/format";
import { TypeIcon } from "../../common/icons";
import { python, shell, travel } from "../../common/quote";
import { SearchBox } from "../../common/SearchBox";
import { type Column, Table } from "../../common/Table";
import { Detail } from "../lineage/Detail";

type Neighbourhood = Schemas["Neighbourhood"];
type Dot = Neighbourhood["vertices"][number];
const GraphView = lazy(() => import("./GraphView"));

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

/** Page Neighbourhood; parameters `id`, `depth`, `limit` and `sel`, the selected vertex. */
export default function NeighbourhoodPage() {
  const { params } = useRoute();
  const id = params.get("id") ?? "";
  const depth = Number(params.get("depth") ?? 2);
  const limit = Number(params.get("limit") ?? 5000);
  const neighbourhood = useGet<Neighbourhood>(id ? "/api/v1/view/neighbourhood" : null, { id, depth, limit });
  const chosen = params.get("sel");
  const choose = useCallback((sel: string) => change({ sel }, true), []);
  if (!id) {
    return (
      <div style={{ padding: 24 }}>
        <h1>Neighbourhood</h1>
        <p className="muted">
          The neighbourhood of a vertex has all vertices that edges of any type connect to it, up to a number of steps. Type a
          part of its name. In an empty database, esker run records commands and the files they use.
        </p>
        <SearchBox
          label="Neighbourhood of"
          placeholder="A path, a run, a user"
          autoFocus
          onSearch={(q) => go("search", { q })}
          onPick={(i) => go("neighbourhood", { id: i.name })}
        />
      </div>
    );
  }
  const chain = `v(${travel(id)})${".e().v()".repeat(depth)}`;
  return (
    <>
      <div className="head">
        <h1 className="clip" style={{ maxWidth: 480 }} title={id}>
          Neighbourhood of {id.slice(id.indexOf(":") + 1)}
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
        {neighbourhood.data && (
          <span className="muted small" role="status">
            {count(neighbourhood.data.vertices.length)} vertices, {count(neighbourhood.data.edges.length)} edges
            {neighbourhood.data.held_back > 0 &&
              `; ${neighbourhood.data.held_back_more ? "more than " : ""}${count(neighbourhood.data.held_back)} vertices not shown`}
            {neighbourhood.data.edges_held_back > 0 && `, ${count(neighbourhood.data.edges_held_back)} edges not shown`}
          </span>
        )}
        <div className="grow" />
        <a href={href("lineage", { id })}>Lineage</a>
        <CopyAs formats={{ CLI: `esker travel T ${shell(chain)}`, Python: `db.travel(${python(chain)})`, Travel: chain }} />
      </div>
      <div className="split">
        <div className="canvas">
          <Await request={neighbourhood}>
            {(data) => (
              <Suspense fallback={<Skeleton />}>
                <GraphView vertices={data.vertices} edges={data.edges} types={data.types} chosen={chosen} onChoose={choose} />
              </Suspense>
            )}
          </Await>
        </div>
        <aside className="side" aria-label="Vertices">
          {neighbourhood.data && (
            <Table
              label="Vertices of the neighbourhood"
              columns={COLUMNS}
              rows={neighbourhood.data.vertices}
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
