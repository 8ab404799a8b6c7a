// The page Travel: an editor for traversals; the result as table, graph or text, and the profile of its steps.
import { useEffect, useMemo, useState } from "react";
import { HttpError, post, type Schemas, useGet } from "../../api/client";
import { change, useRoute } from "../../app/router";
import { CodeEditor } from "../../common/CodeEditor";
import { CopyAs } from "../../common/CopyAs";
import { Empty, ErrorNote, Skeleton, withoutPrefix } from "../../common/Feedback";
import { count, time, value } from "../../common/format";
import { TRAVEL } from "../../common/languages";
import { python, shell } from "../../common/quote";
import { type Column, Table } from "../../common/Table";
import { VertexLink } from "../../common/Vertex";
import { Profile } from "./Profile";
import { ResultGraph } from "./ResultGraph";
import { asText, type TravelResult } from "./result";

type Vertex = Schemas["Vertex"];
type View = "table" | "graph" | "text" | "profile";

const VIEWS: View[] = ["table", "graph", "text", "profile"];

/** Page Travel; parameters `q`, the traversal, and `view`. */
export default function TravelPage() {
  const { params } = useRoute();
  const query = params.get("q") ?? "";
  const view = (params.get("view") as View | null) ?? "table";
  const [text, setText] = useState(query);
  const [state, setState] = useState<{ busy: boolean; data: TravelResult | null; error: Error | null; micros: number }>({
    busy: false,
    data: null,
    error: null,
    micros: 0,
  });
  const [runs, setRuns] = useState(0);
  const example = useExample();
  useEffect(() => {
    if (query) setText(query);
  }, [query]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new run sends the same traversal again
  useEffect(() => {
    if (!query) return;
    const stop = new AbortController();
    const start = performance.now();
    setState((s) => ({ ...s, busy: true, error: null }));
    post<TravelResult>("/api/v1/travel", { chain: query, profile: true, timeout_ms: 30_000, max_edges: 5_000_000 }, stop.signal)
      .then((data) => setState({ busy: false, data, error: null, micros: (performance.now() - start) * 1000 }))
      .catch((error: Error) => !stop.signal.aborted && setState({ busy: false, data: null, error, micros: 0 }));
    return () => stop.abort();
  }, [query, runs]);
  const run = () => {
    const chain = text.trim();
    if (!chain) return;
    if (chain === query) setRuns((n) => n + 1);
    else change({ q: chain });
  };
  const syntaxError = useMemo(
    () => (state.error instanceof HttpError ? { message: withoutPrefix(state.error.message), at: state.error.at } : null),
    [state.error],
  );
  return (
    <>
      <div className="head">
        <h1>Travel</h1>
        <span className="muted small">Start vertices, edges to follow, filters, and the result.</span>
        <div className="grow" />
        <CopyAs
          formats={{
            CLI: `esker travel T ${shell(text.trim())}`,
            Python: `db.travel(${python(text.trim())})`,
            Travel: text.trim(),
          }}
        />
      </div>
      <CodeEditor
        language={TRAVEL}
        label="Traversal"
        value={text}
        onChange={setText}
        onRun={run}
        error={syntaxError}
        hint={example}
      />
      <div className="row" style={{ margin: "8px 0 12px" }}>
        <button type="button" className="primary" onClick={run} disabled={!text.trim()}>
          Run <span className="small">(Ctrl Enter)</span>
        </button>
        {!text && (
          <button type="button" onClick={() => setText(example)}>
            Use the example
          </button>
        )}
        <div className="tabs" role="tablist" aria-label="Result as">
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
        <ErrorNote error={state.error} onRetry={() => setRuns((n) => n + 1)} />
      ) : state.data ? (
        <ResultView data={state.data} view={view} />
      ) : (
        <Empty>No traversal has run yet. Type one, or use the example.</Empty>
      )}
    </>
  );
}

/** Returns an example: files that runs of a user of this database wrote. */
function useExample(): string {
  const users = useGet<{ vertices: Vertex[] }>("/api/v1/vertices", { type: "User", limit: 1 });
  const user = users.data?.vertices[0]?.id ?? "user:1001";
  return `v(${JSON.stringify(user)}).e("run").v().e("write").v()`;
}

function columns(rows: Vertex[]): Column<Vertex>[] {
  const names = new Map<string, number>();
  for (const row of rows.slice(0, 500))
    for (const name of Object.keys(row.attributes)) names.set(name, (names.get(name) ?? 0) + 1);
  const frequent = [...names].sort((a, b) => b[1] - a[1]).slice(0, 6);
  return [
    {
      name: "Vertex",
      value: (v) => v.id,
      show: (v) => <VertexLink id={v.id} type={v.type} fullName />,
      width: "minmax(260px, 3fr)",
    },
    { name: "Type", value: (v) => v.type, width: "110px" },
    { name: "Version", value: (v) => v.version, show: (v) => time(v.version), width: "160px" },
    ...frequent.map(
      ([name]): Column<Vertex> => ({
        name,
        value: (v) => (v.attributes as Record<string, unknown>)[name],
        show: (v) => {
          const attribute = (v.attributes as Record<string, unknown>)[name];
          return attribute === undefined ? "" : value(attribute);
        },
      }),
    ),
  ];
}

function ResultView({ data, view }: { data: TravelResult; view: View }) {
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
        <ResultGraph vertices={sets.flatMap((s) => s.vertices)} edges={data.edges ?? []} />
      ) : (
        sets.map((set, n) => (
          <section key={set.hop} aria-label={`Set ${n + 1}`}>
            {sets.length > 1 && <h3>After hop {set.hop}</h3>}
            {set.vertices.length === 0 ? (
              <Empty>The result has no vertices. The profile shows how many vertices each step reached.</Empty>
            ) : (
              <Table label={`Vertices of set ${n + 1}`} columns={columns(set.vertices)} rows={set.vertices} id={(v) => v.id} />
            )}
          </section>
        ))
      )}
    </>
  );
}
