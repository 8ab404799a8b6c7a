// The result of a traversal as a graph, up to the number of vertices that a picture can show.
import { lazy, Suspense, useMemo } from "react";
import type { Schemas } from "../../api/client";
import { Empty, Skeleton } from "../../common/Feedback";
import { count } from "../../common/format";
import { ringLayout } from "../neighbourhood/layout";
import type { Edge } from "./result";

const GraphView = lazy(() => import("../neighbourhood/GraphView"));
const VERTICES_MAX = 5_000;

/** Picture of the vertices and edges of a result. */
export function ResultGraph({ vertices, edges }: { vertices: Schemas["Vertex"][]; edges: Edge[] }) {
  const graph = useMemo(() => {
    const typeOf = new Map<string, string>();
    for (const v of vertices) typeOf.set(v.id, v.type ?? "");
    for (const e of edges) for (const end of [e.src, e.dst]) if (!typeOf.has(end)) typeOf.set(end, "");
    const drawn = [...typeOf].slice(0, VERTICES_MAX);
    const indexOf = new Map(drawn.map(([id], n) => [id, n]));
    const lines: [number, number, number][] = [];
    const types: string[] = [];
    for (const e of edges) {
      const [from, to] = [indexOf.get(e.src), indexOf.get(e.dst)];
      if (from === undefined || to === undefined) continue;
      let type = types.indexOf(e.type);
      if (type < 0) type = types.push(e.type) - 1;
      lines.push([from, to, type]);
    }
    const positions = ringLayout(drawn.length, lines);
    const dots = drawn.map(([id, type], n) => ({
      id,
      type,
      label: id.slice(id.lastIndexOf("/") + 1),
      x: positions[n]?.[0] ?? 0,
      y: positions[n]?.[1] ?? 0,
      degree: lines.filter((l) => l[0] === n || l[1] === n).length,
      depth: 0,
    }));
    return { dots, lines, types, omitted: typeOf.size - drawn.length };
  }, [vertices, edges]);
  if (graph.dots.length === 0) return <Empty>The result has no vertices to draw.</Empty>;
  return (
    <>
      {graph.lines.length === 0 && (
        <p className="muted">Without return_fp(), a traversal returns no edges; the picture has only its vertices.</p>
      )}
      {graph.omitted > 0 && (
        <p className="muted">
          {count(graph.omitted)} vertices are not shown: a picture of more than {count(VERTICES_MAX)} vertices is not readable.
        </p>
      )}
      <div style={{ height: 520, border: "1px solid var(--line)", borderRadius: 8, overflow: "hidden" }}>
        <Suspense fallback={<Skeleton />}>
          <GraphView vertices={graph.dots} edges={graph.lines} types={graph.types} />
        </Suspense>
      </div>
    </>
  );
}
