// An answer as a graph: as many vertices as can be told apart.
import { lazy, Suspense, useMemo } from "react";
import type { Schemas } from "../../api/client";
import { count } from "../../common/format";
import { Empty, Skeleton } from "../../common/State";
import { rings } from "../around/place";
import type { Edge } from "./answer";

const Dots = lazy(() => import("../around/Dots"));
const MOST = 5_000;

export function Small({ vertices, edges }: { vertices: Schemas["Vertex"][]; edges: Edge[] }) {
  const graph = useMemo(() => {
    const names = new Map<string, string>();
    for (const v of vertices) names.set(v.id, v.type ?? "");
    for (const e of edges) for (const end of [e.src, e.dst]) if (!names.has(end)) names.set(end, "");
    const shown = [...names].slice(0, MOST);
    const at = new Map(shown.map(([id], n) => [id, n]));
    const lines: [number, number, number][] = [];
    const types: string[] = [];
    for (const e of edges) {
      const [from, to] = [at.get(e.src), at.get(e.dst)];
      if (from === undefined || to === undefined) continue;
      let type = types.indexOf(e.type);
      if (type < 0) type = types.push(e.type) - 1;
      lines.push([from, to, type]);
    }
    const places = rings(shown.length, lines);
    const dots = shown.map(([id, type], n) => ({
      id,
      type,
      label: id.slice(id.lastIndexOf("/") + 1),
      x: places[n]?.[0] ?? 0,
      y: places[n]?.[1] ?? 0,
      degree: lines.filter((l) => l[0] === n || l[1] === n).length,
      depth: 0,
    }));
    return { dots, lines, types, held: names.size - shown.length };
  }, [vertices, edges]);
  if (graph.dots.length === 0) return <Empty>There is nothing to draw.</Empty>;
  return (
    <>
      {graph.lines.length === 0 && (
        <p className="muted">Without return_fp() a traversal gives no edges: these are its vertices alone.</p>
      )}
      {graph.held > 0 && (
        <p className="muted">
          {count(graph.held)} vertices are held back: more than {count(MOST)} cannot be told apart.
        </p>
      )}
      <div style={{ height: 520, border: "1px solid var(--line)", borderRadius: 8, overflow: "hidden" }}>
        <Suspense fallback={<Skeleton />}>
          <Dots vertices={graph.dots} edges={graph.lines} types={graph.types} />
        </Suspense>
      </div>
    </>
  );
}
