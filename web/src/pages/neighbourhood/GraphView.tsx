// Drawing of large graphs by WebGL (sigma): vertices are dots, with labels where they fit.
import Graph from "graphology";
import { useEffect, useRef, useState } from "react";
import Sigma from "sigma";
import { NodePointProgram } from "sigma/rendering";
import type { Schemas } from "../../api/client";
import { useDark } from "../../app/theme";
import { family } from "../../common/icons";

type Neighbourhood = Schemas["Neighbourhood"];

/** Number of vertices or edges above which they are drawn in a simpler way, so that the picture moves without delay. */
const SIMPLE_ABOVE = 1_500;

interface Props {
  /** Vertices with their coordinates; `edges` has their indexes and an index into `types`. */
  vertices: Neighbourhood["vertices"];
  edges: readonly (readonly number[])[];
  types: string[];
  chosen?: string | null;
  onChoose?: (id: string) => void;
}

/** Picture of a graph that can be moved and enlarged; a click on a vertex calls `onChoose`. */
export default function GraphView({ vertices, edges, types, chosen, onChoose }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const renderer = useRef<Sigma | null>(null);
  const callback = useRef(onChoose);
  callback.current = onChoose;
  const dark = useDark();
  const [failed, setFailed] = useState("");
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim() || (dark ? "#888" : "#555");
    const graph = new Graph({ multi: true, type: "directed" });
    vertices.forEach((v, n) => {
      graph.addNode(String(n), {
        x: v.x,
        y: v.y,
        size: n === 0 && onChoose ? 9 : Math.min(12, (vertices.length > SIMPLE_ABOVE ? 1.2 : 3) + Math.sqrt(v.degree)),
        label: v.label,
        color: colour(`t-${family(v.type)}`),
      });
    });
    for (const [from = 0, to = 0, type = 0] of edges) {
      graph.addEdge(String(from), String(to), {
        label: (types[type] ?? "").replace(/^.*[/#]/, ""),
        color: colour("line"),
        size: 1,
      });
    }
    let sigma: Sigma;
    try {
      sigma = new Sigma(graph, element, {
        allowInvalidContainer: true,
        stagePadding: 70,
        // With many edges, arrowheads are not readable. While the picture moves, edges and labels would slow it down.
        defaultEdgeType: edges.length > SIMPLE_ABOVE ? "line" : "arrow",
        hideEdgesOnMove: edges.length > SIMPLE_ABOVE,
        hideLabelsOnMove: vertices.length > SIMPLE_ABOVE,
        ...(vertices.length > SIMPLE_ABOVE ? { nodeProgramClasses: { circle: NodePointProgram } } : {}),
        renderEdgeLabels: edges.length < 60,
        labelColor: { color: colour("fg") },
        edgeLabelColor: { color: colour("fg-2") },
        labelFont: "system-ui, sans-serif",
        labelSize: 12,
        labelRenderedSizeThreshold: vertices.length > 300 ? 7 : 4,
        defaultDrawNodeHover: (context, data, settings) => {
          const size = settings.labelSize;
          context.font = `600 ${size}px ${settings.labelFont}`;
          const text = data.label ?? "";
          const width = context.measureText(text).width + 10;
          context.fillStyle = colour("bg");
          context.fillRect(data.x + data.size, data.y - size / 2 - 5, width, size + 10);
          context.fillStyle = colour("fg");
          context.fillText(text, data.x + data.size + 5, data.y + size / 3);
        },
      });
    } catch (e) {
      setFailed(e instanceof Error ? e.message : String(e));
      return;
    }
    renderer.current = sigma;
    sigma.on("clickNode", ({ node }) => {
      const id = vertices[Number(node)]?.id;
      if (id) callback.current?.(id);
    });
    return () => {
      renderer.current = null;
      sigma.kill();
    };
  }, [vertices, edges, types, dark, onChoose]);
  useEffect(() => {
    const sigma = renderer.current;
    if (!sigma || chosen === undefined) return;
    sigma.getGraph().forEachNode((node) => {
      sigma.getGraph().setNodeAttribute(node, "highlighted", vertices[Number(node)]?.id === chosen);
    });
  }, [chosen, vertices]);
  if (failed)
    return <div className="note warn">This browser cannot draw by WebGL ({failed}). The table has the same vertices.</div>;
  return (
    <div
      ref={box}
      style={{ width: "100%", height: "100%" }}
      role="img"
      aria-label={`Graph of ${vertices.length} vertices and ${edges.length} edges`}
    />
  );
}
