// Traversals: typed with completion, their answers as a table, a graph, text, and what each step cost.
import { useEffect, useMemo, useState } from "react";
import { post, Refused, type Schemas, useGet } from "../../api/client";
import { change, useRoute } from "../../app/router";
import { Code } from "../../common/Code";
import { CopyAs } from "../../common/CopyAs";
import { count, time, value } from "../../common/format";
import { TRAVEL } from "../../common/languages";
import { python, shell } from "../../common/quote";
import { bare, Empty, ErrorNote, Skeleton } from "../../common/State";
import { type Column, Table } from "../../common/Table";
import { VertexLink } from "../../common/Vertex";
import { type Answer, asText } from "./answer";
import { Profile } from "./Profile";
import { Small } from "./Small";

type Vertex = Schemas["Vertex"];
type View = "table" | "graph" | "text" | "profile";

const VIEWS: View[] = ["table", "graph", "text", "profile"];

export default function TravelPage() {
  const { params } = useRoute();
  const asked = params.get("q") ?? "";
  const view = (params.get("view") as View | null) ?? "table";
  const [text, setText] = useState(asked);
  const [state, setState] = useState<{ busy: boolean; data: Answer | null; error: Error | null; micros: number }>({
    busy: false,
    data: null,
    error: null,
    micros: 0,
  });
  const [turn, setTurn] = useState(0);
  const example = useExample();
  useEffect(() => {
    if (asked) setText(asked);
  }, [asked]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a turn runs the same chain again
  useEffect(() => {
    if (!asked) return;
    const stop = new AbortController();
    const begun = performance.now();
    setState((s) => ({ ...s, busy: true, error: null }));
    post<Answer>("/api/v1/travel", { chain: asked, profile: true, timeout_ms: 30_000, max_edges: 5_000_000 }, stop.signal)
      .then((data) => setState({ busy: false, data, error: null, micros: (performance.now() - begun) * 1000 }))
      .catch((error: Error) => !stop.signal.aborted && setState({ busy: false, data: null, error, micros: 0 }));
    return () => stop.abort();
  }, [asked, turn]);
  const run = () => {
    const chain = text.trim();
    if (!chain) return;
    if (chain === asked) setTurn((t) => t + 1);
    else change({ q: chain });
  };
  const refused = useMemo(
    () => (state.error instanceof Refused ? { message: bare(state.error.message), at: state.error.at } : null),
    [state.error],
  );
  return (
    <>
      <div className="head">
        <h1>Travel</h1>
        <span className="muted small">Where to start, which edges to follow, what to keep, what to return.</span>
        <div className="grow" />
        <CopyAs
          ways={{
            CLI: `esker travel T ${shell(text.trim())}`,
            Python: `db.travel(${python(text.trim())})`,
            Travel: text.trim(),
          }}
        />
      </div>
      <Code language={TRAVEL} label="Traversal" value={text} onChange={setText} onRun={run} error={refused} hint={example} />
      <div className="row" style={{ margin: "8px 0 12px" }}>
        <button type="button" className="primary" onClick={run} disabled={!text.trim()}>
          Run <span className="small">(Ctrl Enter)</span>
        </button>
        {!text && (
          <button type="button" onClick={() => setText(example)}>
            Take the example
          </button>
        )}
        <div className="tabs" role="tablist" aria-label="Answer as">
          {VIEWS.map((v) => (
            <button
              key={v}
              type="button"
              role="tab"
              aria-selected={v === view}
              onClick={() => change({ view: v === "table" ? null : v }, true)}
            >
              {v}
            </button>
          ))}
        </div>
        {state.data && !state.busy && (
          <span className="muted small">
            {state.data.complete ? "complete" : "not complete"}, {(state.micros / 1000).toFixed(0)} ms
          </span>
        )}
      </div>
      {state.busy ? (
        <Skeleton rows={6} />
      ) : state.error ? (
        <ErrorNote error={state.error} again={() => setTurn((t) => t + 1)} />
      ) : state.data ? (
        <Shown data={state.data} view={view} />
      ) : (
        <Empty>Nothing has been run yet.</Empty>
      )}
    </>
  );
}

/** A chain that works here: from somebody who ran something. */
function useExample(): string {
  const users = useGet<{ vertices: Vertex[] }>("/api/v1/vertices", { type: "User", limit: 1 });
  const user = users.data?.vertices[0]?.id ?? "user:1001";
  return `v(${JSON.stringify(user)}).e("run").v().e("write").v()`;
}

function columns(rows: Vertex[]): Column<Vertex>[] {
  const names = new Map<string, number>();
  for (const row of rows.slice(0, 500))
    for (const name of Object.keys(row.attributes)) names.set(name, (names.get(name) ?? 0) + 1);
  const shown = [...names].sort((a, b) => b[1] - a[1]).slice(0, 6);
  return [
    {
      name: "Vertex",
      value: (v) => v.id,
      show: (v) => <VertexLink id={v.id} type={v.type} whole />,
      width: "minmax(260px, 3fr)",
    },
    { name: "Type", value: (v) => v.type, width: "110px" },
    { name: "Version", value: (v) => v.version, show: (v) => time(v.version), width: "160px" },
    ...shown.map(
      ([name]): Column<Vertex> => ({
        name,
        value: (v) => (v.attributes as Record<string, unknown>)[name],
        show: (v) => {
          const held = (v.attributes as Record<string, unknown>)[name];
          return held === undefined ? "" : value(held);
        },
      }),
    ),
  ];
}

function Shown({ data, view }: { data: Answer; view: View }) {
  const sets = data.sets ?? (data.vertices ? [{ hop: 0, vertices: data.vertices }] : []);
  return (
    <>
      {data.stopped.map((s) => (
        <div className="note warn" role="status" key={`${s.reason} ${s.step}`}>
          Stopped here ({s.reason}) at step {s.step}: {count(s.vertices_left)} vertices were not followed.
        </div>
      ))}
      {view === "profile" ? (
        <Profile steps={data.profile ?? []} servers={data.servers ?? []} />
      ) : view === "text" ? (
        <pre className="note">{asText(data)}</pre>
      ) : view === "graph" ? (
        <Small vertices={sets.flatMap((s) => s.vertices)} edges={data.edges ?? []} />
      ) : (
        sets.map((set, n) => (
          <section key={set.hop} aria-label={`Set ${n + 1}`}>
            {sets.length > 1 && <h3>After hop {set.hop}</h3>}
            {set.vertices.length === 0 ? (
              <Empty>No vertex is left. The profile says where they went.</Empty>
            ) : (
              <Table label={`Vertices of set ${n + 1}`} columns={columns(set.vertices)} rows={set.vertices} id={(v) => v.id} />
            )}
          </section>
        ))
      )}
    </>
  );
}
