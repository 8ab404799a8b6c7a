// SPARQL: queries and updates, their answers as a table, a graph, or as they came.
import { lazy, Suspense, useEffect, useState } from "react";
import { path, Refused, send } from "../../api/client";
import { change, useRoute } from "../../app/router";
import { Code } from "../../common/Code";
import { CopyAs } from "../../common/CopyAs";
import { count } from "../../common/format";
import { SPARQL } from "../../common/languages";
import { shell } from "../../common/quote";
import { Empty, ErrorNote, Skeleton } from "../../common/State";
import { type Column, Table } from "../../common/Table";
import { graphOf, isUpdate, kindOf, placeOf, shown, type Term } from "./query";

const Dots = lazy(() => import("../around/Dots"));

const EXAMPLE = "SELECT ?s ?p ?o WHERE {\n  ?s ?p ?o\n}\nLIMIT 100";
const LIMIT_S = 60;

interface Results {
  head: { vars?: string[] };
  results?: { bindings: Record<string, Term>[] };
  boolean?: boolean;
}

interface Done {
  raw: string;
  results: Results | null;
  millis: number;
  kind: string;
}

export default function SparqlPage() {
  const { params } = useRoute();
  const asked = params.get("q") ?? "";
  const view = params.get("view") ?? "table";
  const [text, setText] = useState(asked || EXAMPLE);
  const [state, setState] = useState<{ busy: boolean; done: Done | null; error: Error | null }>({
    busy: false,
    done: null,
    error: null,
  });
  const [confirm, setConfirm] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (asked) setText(asked);
  }, [asked]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a turn runs the same query again
  useEffect(() => {
    if (!asked || isUpdate(asked)) return;
    const stop = new AbortController();
    setState((s) => ({ ...s, busy: true, error: null }));
    query(asked, stop.signal)
      .then((done) => setState({ busy: false, done, error: null }))
      .catch((error: Error) => !stop.signal.aborted && setState({ busy: false, done: null, error }));
    return () => stop.abort();
  }, [asked, turn]);
  const run = () => {
    const next = text.trim();
    if (!next) return;
    if (isUpdate(next)) setConfirm(next);
    else if (next === asked) setTurn((t) => t + 1);
    else change({ q: next });
  };
  const update = (next: string) => {
    setConfirm(null);
    setState({ busy: true, done: null, error: null });
    const begun = performance.now();
    send("/sparql", { method: "POST", headers: { "content-type": "application/sparql-update" }, body: next })
      .then(async (r) => {
        const raw = told(await r.text());
        setState({ busy: false, done: { raw, results: null, millis: performance.now() - begun, kind: "update" }, error: null });
      })
      .catch((error: Error) => setState({ busy: false, done: null, error }));
  };
  const refused =
    state.error instanceof Refused ? { message: state.error.message, at: placeOf(state.error.message, text) } : null;
  return (
    <>
      <div className="head">
        <h1>SPARQL</h1>
        <span className="muted small">Queries are given up after {LIMIT_S} s.</span>
        <div className="grow" />
        <CopyAs
          ways={{
            CLI: `esker sparql T ${isUpdate(text) ? "--update " : ""}${shell(text.trim())}`,
            Python: `db.${isUpdate(text) ? "sparql_update" : "sparql"}(${JSON.stringify(text.trim())})`,
            SPARQL: text.trim(),
            HTTP: `curl ${window.location.origin}/sparql --data-urlencode ${shell(`query=${text.trim()}`)}`,
          }}
        />
      </div>
      <Code language={SPARQL} label="Query" value={text} onChange={setText} onRun={run} error={refused} height={150} />
      <div className="row" style={{ margin: "8px 0 12px" }}>
        <button type="button" className="primary" onClick={run} disabled={!text.trim()}>
          {isUpdate(text) ? "Update…" : "Run"} <span className="small">(Ctrl Enter)</span>
        </button>
        <div className="tabs" role="tablist" aria-label="Answer as">
          {["table", "graph", "text"].map((v) => (
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
        {state.done && !state.busy && (
          <span className="muted small">
            {state.done.results?.results && `${count(state.done.results.results.bindings.length)} solutions, `}
            {state.done.millis.toFixed(0)} ms
          </span>
        )}
      </div>
      {confirm !== null && (
        <div className="note warn" role="alertdialog" aria-label="An update">
          <p>
            <strong>This changes data.</strong> It is done whole or not at all, and cannot be taken back.
          </p>
          <div className="row">
            <button type="button" className="primary" onClick={() => update(confirm)}>
              Change it
            </button>
            <button type="button" onClick={() => setConfirm(null)}>
              Leave it
            </button>
          </div>
        </div>
      )}
      {state.busy ? (
        <Skeleton />
      ) : state.error ? (
        <ErrorNote error={state.error} again={() => setTurn((t) => t + 1)} />
      ) : state.done ? (
        <Shown done={state.done} view={view} />
      ) : (
        <Empty command="esker rdf load T data.ttl">
          RDF is loaded from Turtle, N-Triples, RDF/XML, JSON-LD and others, and asked here:
        </Empty>
      )}
    </>
  );
}

/** What an update did, in words. */
function told(text: string): string {
  try {
    const { added, removed } = JSON.parse(text) as { added?: number; removed?: number };
    if (added === undefined || removed === undefined) return text;
    return `${count(added)} ${added === 1 ? "triple was" : "triples were"} added, ${count(removed)} removed.`;
  } catch {
    return text || "The update is done.";
  }
}

async function query(text: string, signal: AbortSignal): Promise<Done> {
  const begun = performance.now();
  const kind = kindOf(text);
  const graph = kind === "construct" || kind === "describe";
  const response = await send(path("/sparql", { timeout: LIMIT_S * 1000 }), {
    method: "POST",
    headers: {
      "content-type": "application/sparql-query",
      accept: graph ? "application/n-triples" : "application/sparql-results+json",
    },
    body: text,
    signal,
  });
  const raw = await response.text();
  const results = graph ? null : (JSON.parse(raw) as Results);
  return { raw, results, millis: performance.now() - begun, kind };
}

function Shown({ done, view }: { done: Done; view: string }) {
  const { results, raw } = done;
  if (results?.boolean !== undefined)
    return <div className="note">{results.boolean ? "Yes: it holds." : "No: it does not hold."}</div>;
  if (view === "text" || done.kind === "update")
    return (
      <pre className="note" style={{ maxHeight: 560, overflow: "auto" }}>
        {raw.slice(0, 400_000)}
      </pre>
    );
  const graph = graphOf(results?.results?.bindings ?? null, results?.head.vars ?? [], results ? "" : raw);
  if (view === "graph") {
    if (!graph) return <Empty>An answer is drawn where it consists of triples: CONSTRUCT, DESCRIBE, or three columns.</Empty>;
    return (
      <>
        {graph.held > 0 && <p className="muted">{count(graph.held)} triples are held back.</p>}
        <div style={{ height: 520, border: "1px solid var(--line)", borderRadius: 8, overflow: "hidden" }}>
          <Suspense fallback={<Skeleton />}>
            <Dots vertices={graph.vertices} edges={graph.edges} types={graph.types} />
          </Suspense>
        </div>
      </>
    );
  }
  if (results?.results) {
    const { bindings } = results.results;
    if (bindings.length === 0) return <Empty>There is no solution.</Empty>;
    const columns = (results.head.vars ?? []).map(
      (name): Column<Record<string, Term>> => ({
        name,
        value: (row) => (row[name] ? shown(row[name]) : null),
        width: "minmax(140px, 1fr)",
      }),
    );
    return <Table label="Solutions" columns={columns} rows={bindings} height={560} />;
  }
  const rows = graph?.triples ?? [];
  if (rows.length === 0) return <Empty>There is no triple.</Empty>;
  const columns: Column<[string, string, string]>[] = ["Subject", "Predicate", "Object"].map((name, n) => ({
    name,
    value: (row) => row[n as 0 | 1 | 2],
    width: "minmax(160px, 1fr)",
  }));
  return <Table label="Triples" columns={columns} rows={rows} height={560} />;
}
