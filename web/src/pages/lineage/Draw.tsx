// The picture: boxes in the places that the server worked out, lines between them; moved and enlarged by pointer and keys.
import {
  Background,
  BackgroundVariant,
  BaseEdge,
  Controls,
  type Edge,
  type EdgeProps,
  Handle,
  MiniMap,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
} from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import "./lineage.css";
import { memo, useMemo } from "react";
import { useDark } from "../../app/theme";
import { count, middle } from "../../common/format";
import { family, Icon } from "../../common/icons";
import { curve } from "./curve";
import type { Box, Picture } from "./index";
import type { Sides } from "./open";
import type { Lit } from "./path";

interface Props {
  picture: Picture;
  chosen: string;
  lit: Lit | null;
  open: Map<string, Sides>;
  onChoose: (id: string) => void;
  onExpand: (box: Box, side: "<" | ">") => void;
  onSplit: (group: string) => void;
}

type BoxData = {
  box: Box;
  dim: boolean;
  chosen: boolean;
  open: Sides | undefined;
  onExpand: Props["onExpand"];
  onSplit: Props["onSplit"];
};
type LineData = { points: number[][]; dim: boolean; strong: boolean; concurrent: boolean; label: string };

const BY: Record<string, string> = { directory: "in one directory", pattern: "named alike", type: "of one type" };

const BoxNode = memo(function BoxNode({ data }: NodeProps<Node<BoxData>>) {
  const { box, dim, chosen, open } = data;
  const of = family(box.type, box.execution);
  const group = box.kind === "group";
  const title = group
    ? `${count(box.members)} vertices ${BY[box.by ?? ""] ?? ""}`
    : `${box.id}${box.version ? `\n${box.version}` : ""}`;
  return (
    <div
      className={`lbox t-${of}${dim ? " dim" : ""}${chosen ? " chosen" : ""}${group ? " group" : ""}${box.focus ? " focus" : ""}${box.deleted ? " gone" : ""}`}
      title={title}
    >
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <Icon name={of} />
      <div className="ltext">
        <div className="clip name">{group ? `${count(box.members)} × ${middle(box.label, 24)}` : middle(box.label, 30)}</div>
        <div className="clip detail">{box.detail || box.type}</div>
      </div>
      {(box.up > 0 || open?.up) && !group && (
        <button
          type="button"
          className="more left nodrag"
          aria-label={open?.up ? `Fold what ${box.label} came from` : `Show ${box.up} more before ${box.label}`}
          onClick={(e) => {
            e.stopPropagation();
            data.onExpand(box, "<");
          }}
        >
          {open?.up ? "−" : `+${box.up}`}
        </button>
      )}
      {(box.down > 0 || open?.down) && !group && (
        <button
          type="button"
          className="more right nodrag"
          aria-label={open?.down ? `Fold what came from ${box.label}` : `Show ${box.down} more after ${box.label}`}
          onClick={(e) => {
            e.stopPropagation();
            data.onExpand(box, ">");
          }}
        >
          {open?.down ? "−" : `+${box.down}`}
        </button>
      )}
      {group && (
        <button
          type="button"
          className="more right nodrag"
          aria-label={`Show the ${box.members} of ${box.label} one by one`}
          onClick={(e) => {
            e.stopPropagation();
            data.onSplit(box.id);
          }}
        >
          ⋯
        </button>
      )}
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
});

const Line = memo(function Line({ data }: EdgeProps<Edge<LineData>>) {
  if (!data) return null;
  const name = `lline${data.dim ? " dim" : ""}${data.strong ? " strong" : ""}${data.concurrent ? " maybe" : ""}`;
  return <BaseEdge path={curve(data.points)} className={name} />;
});

const nodeTypes = { box: BoxNode };
const edgeTypes = { line: Line };

export function Draw({ picture, chosen, lit, open, onChoose, onExpand, onSplit }: Props) {
  const dark = useDark();
  const nodes = useMemo(
    () =>
      picture.boxes.map(
        (box): Node<BoxData> => ({
          id: box.id,
          type: "box",
          position: { x: box.x, y: box.y },
          width: box.w,
          height: box.h,
          data: {
            box,
            dim: lit !== null && !lit.boxes.has(box.id),
            chosen: box.id === chosen,
            open: open.get(box.id),
            onExpand,
            onSplit,
          },
          draggable: false,
          connectable: false,
          ariaLabel: `${box.type} ${box.id}`,
        }),
      ),
    [picture, chosen, lit, open, onExpand, onSplit],
  );
  const edges = useMemo(
    () =>
      picture.lines.map(
        (line, n): Edge<LineData> => ({
          id: String(n),
          source: line.from,
          target: line.to,
          type: "line",
          focusable: false,
          data: {
            points: line.points,
            dim: lit !== null && !lit.lines.has(n),
            strong: lit?.lines.has(n) ?? false,
            concurrent: line.concurrent,
            label: line.type,
          },
        }),
      ),
    [picture, lit],
  );
  return (
    <ReactFlow
      nodes={nodes}
      edges={edges}
      nodeTypes={nodeTypes}
      edgeTypes={edgeTypes}
      colorMode={dark ? "dark" : "light"}
      onNodeClick={(_, node) => onChoose(node.id)}
      onNodeDoubleClick={(_, node) => {
        const box = picture.boxes.find((b) => b.id === node.id);
        if (box?.kind === "group") onSplit(box.id);
        else if (box) window.location.hash = `#/lineage?id=${encodeURIComponent(box.id)}`;
      }}
      onKeyDown={(e) => {
        const at = (e.target as HTMLElement).closest<HTMLElement>("[data-id]");
        if (e.key === "Enter" && at?.dataset.id) onChoose(at.dataset.id);
      }}
      fitView
      fitViewOptions={{ padding: 0.15, maxZoom: 1.1, minZoom: 0.2 }}
      minZoom={0.05}
      maxZoom={2}
      nodesDraggable={false}
      nodesConnectable={false}
      onlyRenderVisibleElements={picture.boxes.length > 150}
    >
      <Background variant={BackgroundVariant.Dots} gap={24} size={1} />
      <Controls showInteractive={false} />
      {picture.boxes.length > 30 && <MiniMap pannable zoomable ariaLabel="The whole picture, small" nodeStrokeWidth={3} />}
    </ReactFlow>
  );
}
