// The page Lineage: the picture, details of the selected box, the list of impact, and the slider of versions.
import { useCallback, useEffect, useMemo, useState } from "react";
import { type Schemas, useGet } from "../../api/client";
import { change, go, href, useRoute } from "../../app/router";
import { CopyAs } from "../../common/CopyAs";
import { Await, Empty } from "../../common/Feedback";
import { count, lastPart } from "../../common/format";
import { python, shell, travel } from "../../common/quote";
import { SearchBox } from "../../common/SearchBox";
import { AsOf } from "./AsOf";
import { Detail } from "./Detail";
import { Exports } from "./Exports";
import { parseExpansions, toggleExpansion } from "./expansion";
import { highlightPaths } from "./highlight";
import { PictureView } from "./PictureView";

/** Boxes and lines of a lineage, with their coordinates. */
export type Picture = Schemas["Picture"];
/** One box of a picture: a vertex or a group of vertices. */
export type Box = Picture["boxes"][number];

/** Page Lineage; parameters `id`, `up` and `down` (levels), `as_of`, `open`, `split`, and `sel`, the selected box. */
export default function LineagePage() {
  const { params } = useRoute();
  const id = params.get("id") ?? "";
  if (!id) return <Start />;
  return <Lineage key={id} id={id} params={params} />;
}

/** The page before a vertex is selected. */
function Start() {
  return (
    <div style={{ padding: 24 }}>
      <div className="head">
        <h1>Lineage</h1>
      </div>
      <p className="muted">
        The lineage of a file, run, executable or user has the inputs and runs that it was derived from, and the data derived
        from it. Type a part of its name. In an empty database, esker run records commands and the files they use, and esker
        import reads the records of other programs.
      </p>
      <SearchBox
        label="Lineage of"
        placeholder="A path, a run, a user"
        autoFocus
        onSearch={(q) => go("search", { q })}
        onPick={(item) => go("lineage", { id: item.name })}
      />
    </div>
  );
}

const LEVELS = [0, 1, 2, 3, 4, 6, 8, 12, 16];

function Lineage({ id, params }: { id: string; params: URLSearchParams }) {
  const up = Number(params.get("up") ?? 1);
  const down = Number(params.get("down") ?? 1);
  const asOf = params.get("as_of") ?? "";
  const open = params.get("open") ?? "";
  const split = params.get("split") ?? "";
  const picture = useGet<Picture>("/api/v1/view/lineage", { id, as_of: asOf, up, down, open, split });
  const chosen = params.get("sel") ?? id;
  const choose = useCallback((sel: string) => change({ sel: sel === id ? null : sel }, true), [id]);
  const highlight = useMemo(() => (picture.data ? highlightPaths(picture.data, chosen) : null), [picture.data, chosen]);
  const expand = useCallback((box: Box, side: "<" | ">") => change({ open: toggleExpansion(open, box.id, side) }), [open]);
  const splitGroup = useCallback((group: string) => change({ split: toggleExpansion(split, group, "") }), [split]);
  const [panel, setPanel] = useState<"detail" | "list">("detail");
  const name = id.slice(id.indexOf(":") + 1);
  const chain = `v(${travel(id)}).e("wasWrittenBy").v().e("read").v().repeat().return_fp()`;
  return (
    <>
      <div className="head">
        <h1 className="clip" style={{ maxWidth: 360 }} title={id}>
          {name.includes("/") ? lastPart(name) : name}
        </h1>
        <span className="muted row">
          Before
          <Levels value={up} onChange={(n) => change({ up: n === 1 ? null : n })} label="Levels before" />
        </span>
        <span className="muted row">
          After
          <Levels value={down} onChange={(n) => change({ down: n === 1 ? null : n })} label="Levels after" />
        </span>
        {(open || split) && (
          <button type="button" onClick={() => change({ open: null, split: null })}>
            Collapse all
          </button>
        )}
        <div className="grow" />
        <a href={href("neighbourhood", { id })}>Neighbourhood</a>
        {picture.data && <Exports picture={picture.data} id={id} asOf={asOf} />}
        <CopyAs
          formats={{
            CLI: `esker lineage T ${shell(id)}${asOf ? ` --as-of ${shell(asOf)}` : ""}`,
            Python: `db.lineage(${python(id)}${asOf ? `, as_of=${python(asOf)}` : ""})`,
            Travel: chain,
            HTTP: `GET /api/v1/lineage?id=${encodeURIComponent(id)}`,
          }}
        />
      </div>
      <div className="split">
        <div className="canvas">
          <Await request={picture}>
            {(data) => (
              <>
                <PictureView
                  picture={data}
                  chosen={chosen}
                  highlight={highlight}
                  open={parseExpansions(open)}
                  onChoose={choose}
                  onExpand={expand}
                  onSplit={splitGroup}
                />
                <Limits picture={data} />
                <AsOf picture={data} asOf={asOf} />
              </>
            )}
          </Await>
        </div>
        <aside className="side" aria-label="Selection">
          <div className="tabs" role="tablist" aria-label="Side panel" style={{ marginBottom: 10 }}>
            <button type="button" role="tab" aria-selected={panel === "detail"} onClick={() => setPanel("detail")}>
              Selection
            </button>
            <button type="button" role="tab" aria-selected={panel === "list"} onClick={() => setPanel("list")}>
              Impact
            </button>
          </div>
          {panel === "detail" ? (
            <Detail
              id={chosen}
              asOf={asOf}
              focus={id}
              box={picture.data?.boxes.find((b) => b.id === chosen) ?? null}
              onSplit={splitGroup}
            />
          ) : (
            <Impact id={id} asOf={asOf} chosen={chosen} onChoose={choose} />
          )}
        </aside>
      </div>
    </>
  );
}

function Levels({ value, onChange, label }: { value: number; onChange: (n: number) => void; label: string }) {
  return (
    <select aria-label={label} value={value} onChange={(e) => onChange(Number(e.target.value))}>
      {(LEVELS.includes(value) ? LEVELS : [...LEVELS, value]).map((n) => (
        <option key={n} value={n}>
          {n}
        </option>
      ))}
    </select>
  );
}

/** Notes on where the traversal stopped, and on vertices that are not visible to the principal. */
function Limits({ picture }: { picture: Picture }) {
  if (picture.stopped.length === 0 && picture.left_out === 0) return null;
  return (
    <div style={{ position: "absolute", left: 12, top: 12, maxWidth: 420, zIndex: 5 }}>
      {picture.stopped.map((s) => (
        <div className="note warn small" key={s.reason} role="status">
          Stopped here ({s.reason}): {count(s.vertices_left)} vertices were not followed
          {s.vertices.length > 0 && `, among them ${s.vertices.slice(0, 3).join(", ")}`}.
        </div>
      ))}
      {picture.left_out > 0 && (
        <div className="note warn small">{count(picture.left_out)} more vertices are not visible to you.</div>
      )}
    </div>
  );
}

type Graph = { vertices: { id: string; type: string | null; version: string | null }[]; complete: boolean };

/** List of the vertices derived from one, with the same selection as the picture. */
function Impact({ id, asOf, chosen, onChoose }: { id: string; asOf: string; chosen: string; onChoose: (id: string) => void }) {
  const impact = useGet<Graph>("/api/v1/impact", { id, as_of: asOf });
  return (
    <Await request={impact}>
      {(data) => {
        const rows = data.vertices.filter((v) => v.id !== id);
        if (rows.length === 0) return <Empty>No vertex was derived from this one.</Empty>;
        return (
          <>
            <p className="muted small">
              {count(rows.length)} vertices were derived from this one{data.complete ? "" : ", and there are more"}.
            </p>
            <ImpactRows rows={rows} chosen={chosen} onChoose={onChoose} />
          </>
        );
      }}
    </Await>
  );
}

function ImpactRows({ rows, chosen, onChoose }: { rows: Graph["vertices"]; chosen: string; onChoose: (id: string) => void }) {
  const [limit, setLimit] = useState(200);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new rows begin with the first 200
  useEffect(() => setLimit(200), [rows]);
  return (
    <>
      <table>
        <thead>
          <tr>
            <th>Vertex</th>
            <th>Type</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, limit).map((v) => (
            <tr key={v.id} className={v.id === chosen ? "selected" : undefined}>
              <td>
                <button type="button" className="link" title={v.id} onClick={() => onChoose(v.id)}>
                  {v.id.slice(v.id.indexOf(":") + 1)}
                </button>
              </td>
              <td>{v.type}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > limit && (
        <button type="button" onClick={() => setLimit(limit * 4)}>
          {count(rows.length - limit)} more
        </button>
      )}
    </>
  );
}
