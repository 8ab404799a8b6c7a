// Where data came from and what became of it: the picture, what was chosen in it, and how it was at other times.
import { useCallback, useEffect, useMemo, useState } from "react";
import { type Schemas, useGet } from "../../api/client";
import { change, go, href, useRoute } from "../../app/router";
import { CopyAs } from "../../common/CopyAs";
import { count, lastPart } from "../../common/format";
import { python, shell, travel } from "../../common/quote";
import { SearchBox } from "../../common/SearchBox";
import { Answer, Empty } from "../../common/State";
import { AsOf } from "./AsOf";
import { Detail } from "./Detail";
import { Draw } from "./Draw";
import { Exports } from "./Exports";
import { opened, toggled } from "./open";
import { path } from "./path";

export type Picture = Schemas["Picture"];
export type Box = Picture["boxes"][number];

export default function LineagePage() {
  const { params } = useRoute();
  const id = params.get("id") ?? "";
  if (!id) return <Choose />;
  return <Lineage key={id} id={id} params={params} />;
}

function Choose() {
  return (
    <div style={{ padding: 24 }}>
      <div className="head">
        <h1>Lineage</h1>
      </div>
      <p className="muted">
        Of a file, a run, an executable or a user: which inputs and runs are behind it, and what was made from it. Type a part
        of its name. Where nothing is known yet, esker run records commands and what they use, and esker import reads what
        others recorded.
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
  const lit = useMemo(() => (picture.data ? path(picture.data, chosen) : null), [picture.data, chosen]);
  const expand = useCallback((box: Box, side: "<" | ">") => change({ open: toggled(open, box.id, side) }), [open]);
  const splitGroup = useCallback((group: string) => change({ split: toggled(split, group, "") }), [split]);
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
            Fold all
          </button>
        )}
        <div className="grow" />
        <a href={href("around", { id })}>Neighbourhood</a>
        {picture.data && <Exports picture={picture.data} id={id} asOf={asOf} />}
        <CopyAs
          ways={{
            CLI: `esker lineage T ${shell(id)}${asOf ? ` --as-of ${shell(asOf)}` : ""}`,
            Python: `db.lineage(${python(id)}${asOf ? `, as_of=${python(asOf)}` : ""})`,
            Travel: chain,
            HTTP: `GET /api/v1/lineage?id=${encodeURIComponent(id)}`,
          }}
        />
      </div>
      <div className="split">
        <div className="canvas">
          <Answer of={picture}>
            {(data) => (
              <>
                <Draw
                  picture={data}
                  chosen={chosen}
                  lit={lit}
                  open={opened(open)}
                  onChoose={choose}
                  onExpand={expand}
                  onSplit={splitGroup}
                />
                <Marks picture={data} />
                <AsOf picture={data} asOf={asOf} />
              </>
            )}
          </Answer>
        </div>
        <aside className="side" aria-label="Chosen">
          <div className="tabs" role="tablist" aria-label="Beside the picture" style={{ marginBottom: 10 }}>
            <button type="button" role="tab" aria-selected={panel === "detail"} onClick={() => setPanel("detail")}>
              Chosen
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

/** Where walks stopped, and what may not be seen. */
function Marks({ picture }: { picture: Picture }) {
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
        <div className="note warn small">{count(picture.left_out)} vertices beside these are not for you to see.</div>
      )}
    </div>
  );
}

type Graph = { vertices: { id: string; type: string | null; version: string | null }[]; complete: boolean };

/** What was derived from it, as a list with the same selection as the picture. */
function Impact({ id, asOf, chosen, onChoose }: { id: string; asOf: string; chosen: string; onChoose: (id: string) => void }) {
  const impact = useGet<Graph>("/api/v1/impact", { id, as_of: asOf });
  return (
    <Answer of={impact}>
      {(data) => {
        const rows = data.vertices.filter((v) => v.id !== id);
        if (rows.length === 0) return <Empty>Nothing was made from it.</Empty>;
        return (
          <>
            <p className="muted small">
              {count(rows.length)} vertices were made from it{data.complete ? "" : ", and there are more"}.
            </p>
            <ImpactRows rows={rows} chosen={chosen} onChoose={onChoose} />
          </>
        );
      }}
    </Answer>
  );
}

function ImpactRows({ rows, chosen, onChoose }: { rows: Graph["vertices"]; chosen: string; onChoose: (id: string) => void }) {
  const [most, setMost] = useState(200);
  // biome-ignore lint/correctness/useExhaustiveDependencies: other rows begin at the top
  useEffect(() => setMost(200), [rows]);
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
          {rows.slice(0, most).map((v) => (
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
      {rows.length > most && (
        <button type="button" onClick={() => setMost(most * 4)}>
          {count(rows.length - most)} more
        </button>
      )}
    </>
  );
}
