// The page SPARQL: an editor for queries and updates; the result as table, graph or text.
import { lazy, Suspense, useEffect, useState } from "react";
import { HttpError, path, send } from "../../api/client";
import { change, useRoute } from "../../app/router";
import { CodeEditor } from "../../common/CodeEditor";
import { CopyAs } from "../../common/CopyAs";
import { Empty, ErrorNote, Skeleton } from "../../common/Feedback";
import { count } from "../../common/format";
import { SPARQL } from "../../common/languages";
import { shell } from "../../common/quote";
import { type Column, Table } from "../../common/Table";
import { errorRange, isUpdate, queryForm, type Term, termText, toGraph } from "./query";

const GraphView = lazy(() => import("../neighbourhood/GraphView"));

const EXAMPLE = "SELECT ?s ?p ?o WHERE {\n  ?s ?p ?o\n}\nLIMIT 100";
/** Time limit of queries in seconds. */
const TIMEOUT_S = 60;

/** SPARQL 1.1 Query Results JSON: solutions, or the boolean of ASK. */
interface Results {
  head: { vars?: string[] };
  results?: { bindings: Record<string, Term>[] };
  boolean?: boolean;
}

/** A response with the time it took in milliseconds; `results` is null for triples and updates. */
interface QueryResult {
  raw: string;
  results: Results | null;
  millis: number;
  form: string;
}

/** Page SPARQL; parameters `q`, the query, and `view`. */
export default function SparqlPage() {
  const { params } = useRoute();
  const currentQuery = params.get("q") ?? "";
  const view = params.get("view") ?? "table";
  const [text, setText] = useState(currentQuery || EXAMPLE);
  const [state, setState] = useState<{ busy: boolean; result: QueryResult | null; error: Error | null }>({
    busy: false,
    result: null,
    error: null,
  });
  const [confirm, setConfirm] = useState<string | null>(null);
  const [runs, setRuns] = useState(0);
  useEffect(() => {
    if (currentQuery) setText(currentQuery);
  }, [currentQuery]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new run sends the same query again
  useEffect(() => {
    if (!currentQuery || isUpdate(currentQuery)) return;
    const stop = new AbortController();
    setState((s) => ({ ...s, busy: true, error: null }));
    query(currentQuery, stop.signal)
      .then((result) => setState({ busy: false, result, error: null }))
      .catch((error: Error) => !stop.signal.aborted && setState({ busy: false, result: null, error }));
    return () => stop.abort();
  }, [currentQuery, runs]);
  const run = () => {
    const next = text.trim();
    if (!next) return;
    if (isUpdate(next)) setConfirm(next);
    else if (next === currentQuery) setRuns((n) => n + 1);
    else change({ q: next });
  };
  const update = (next: string) => {
    setConfirm(null);
    setState({ busy: true, result: null, error: null });
    const start = performance.now();
    send("/sparql", { method: "POST", headers: { "content-type": "application/sparql-update" }, body: next })
      .then(async (r) => {
        const raw = updateSummary(await r.text());
        setState({
          busy: false,
          result: { raw, results: null, millis: performance.now() - start, form: "update" },
          error: null,
        });
      })
      .catch((error: Error) => setState({ busy: false, result: null, error }));
  };
  const syntaxError =
    state.error instanceof HttpError ? { message: state.error.message, at: errorRange(state.error.message, text) } : null;
  return (
    <>
      <div className="head">
        <h1>SPARQL</h1>
        <span className="muted small">Queries stop after {TIMEOUT_S} s.</span>
        <div className="grow" />
        <CopyAs
          formats={{
            CLI: `esker sparql T ${isUpdate(text) ? "--update " : ""}${shell(text.trim())}`,
            Python: `db.${isUpdate(text) ? "sparql_update" : "sparql"}(${JSON.stringify(text.trim())})`,
            SPARQL: text.trim(),
            HTTP: `curl ${window.location.origin}/sparql --data-urlencode ${shell(`query=${text.trim()}`)}`,
          }}
        />
      </div>
      <CodeEditor
        language={SPARQL}
        label="Query"
        value={text}
        onChange={setText}
        onRun={run}
        error={syntaxError}
        height={150}
      />
      <div className="row" style={{ margin: "8px 0 12px" }}>
        <button type="button" className="primary" onClick={run} disabled={!text.trim()}>
          {isUpdate(text) ? "Update…" : "Run"} <span className="small">(Ctrl Enter)</span>
        </button>
        <div className="tabs" role="tablist" aria-label="Result as">
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
        {state.result && !state.busy && (
          <span className="muted small">
            {state.result.results?.results && `${count(state.result.results.results.bindings.length)} solutions, `}
            {state.result.millis.toFixed(0)} ms
          </span>
        )}
      </div>
      {confirm !== null && (
        <div className="note warn" role="alertdialog" aria-label="Confirm the update">
          <p>
            <strong>This changes data.</strong> The update applies as a whole or not at all, and cannot be undone.
          </p>
          <div className="row">
            <button type="button" className="primary" onClick={() => update(confirm)}>
              Run the update
            </button>
            <button type="button" onClick={() => setConfirm(null)}>
              Cancel
            </button>
          </div>
        </div>
      )}
      {state.busy ? (
        <Skeleton />
      ) : state.error ? (
        <ErrorNote error={state.error} onRetry={() => setRuns((n) => n + 1)} />
      ) : state.result ? (
        <ResultView result={state.result} view={view} />
      ) : (
        <Empty command="esker rdf load T data.ttl">
          No query has run yet. This command loads RDF data from Turtle, N-Triples, RDF/XML, JSON-LD and other formats:
        </Empty>
      )}
    </>
  );
}

/** Formats the response to an update. */
function updateSummary(text: string): string {
  try {
    const { added, removed } = JSON.parse(text) as { added?: number; removed?: number };
    if (added === undefined || removed === undefined) return text;
    return `${count(added)} ${added === 1 ? "triple was" : "triples were"} added, ${count(removed)} removed.`;
  } catch {
    return text || "The update was applied.";
  }
}

async function query(text: string, signal: AbortSignal): Promise<QueryResult> {
  const start = performance.now();
  const form = queryForm(text);
  const graph = form === "construct" || form === "describe";
  const response = await send(path("/sparql", { timeout: TIMEOUT_S * 1000 }), {
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
  return { raw, results, millis: performance.now() - start, form };
}

function ResultView({ result, view }: { result: QueryResult; view: string }) {
  const { results, raw } = result;
  if (results?.boolean !== undefined)
    return (
      <div className="note">{results.boolean ? "Yes: the pattern has a solution." : "No: the pattern has no solution."}</div>
    );
  if (view === "text" || result.form === "update")
    return (
      <pre className="note" style={{ maxHeight: 560, overflow: "auto" }}>
        {raw.slice(0, 400_000)}
      </pre>
    );
  const graph = toGraph(results?.results?.bindings ?? null, results?.head.vars ?? [], results ? "" : raw);
  if (view === "graph") {
    if (!graph) return <Empty>Only triples can be drawn: use CONSTRUCT, DESCRIBE, or SELECT with three variables.</Empty>;
    return (
      <>
        {graph.omitted > 0 && (
          <p className="muted">{count(graph.omitted)} triples are not shown, because the picture is full.</p>
        )}
        <div style={{ height: 520, border: "1px solid var(--line)", borderRadius: 8, overflow: "hidden" }}>
          <Suspense fallback={<Skeleton />}>
            <GraphView vertices={graph.vertices} edges={graph.edges} types={graph.types} />
          </Suspense>
        </div>
      </>
    );
  }
  if (results?.results) {
    const { bindings } = results.results;
    if (bindings.length === 0) return <Empty>The query has no solutions.</Empty>;
    const columns = (results.head.vars ?? []).map(
      (name): Column<Record<string, Term>> => ({
        name,
        value: (row) => (row[name] ? termText(row[name]) : null),
        width: "minmax(140px, 1fr)",
      }),
    );
    return <Table label="Solutions" columns={columns} rows={bindings} height={560} />;
  }
  const rows = graph?.triples ?? [];
  if (rows.length === 0) return <Empty>The result has no triples.</Empty>;
  const columns: Column<[string, string, string]>[] = ["Subject", "Predicate", "Object"].map((name, n) => ({
    name,
    value: (row) => row[n as 0 | 1 | 2],
    width: "minmax(160px, 1fr)",
  }));
  return <Table label="Triples" columns={columns} rows={rows} height={560} />;
}
