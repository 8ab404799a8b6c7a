// The picture of lineage (React Flow): boxes at the coordinates that the server computed, and lines between them.
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
  type ReactFlowInstance,
} from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import "./lineage.css";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import { useDark } from "../../app/theme";
import { count, middle } from "../../common/format";
import { family, Icon } from "../../common/icons";
import { curve } from "./curve";
import type { Expansion } from "./expansion";
import type { Highlight } from "./highlight";
import type { Box, Picture } from "./index";

interface Props {
  picture: Picture;
  chosen: string;
  highlight: Highlight | null;
  open: Map<string, Expansion>;
  onChoose: (id: string) => void;
  onExpand: (box: Box, side: "<" | ">") => void;
  onSplit: (group: string) => void;
}

type BoxData = {
  box: Box;
  dim: boolean;
  chosen: boolean;
  open: Expansion | undefined;
  onExpand: Props["onExpand"];
  onSplit: Props["onSplit"];
};
type LineData = { points: number[][]; dim: boolean; strong: boolean; concurrent: boolean; label: string };

const GROUPED_BY: Record<string, string> = {
  directory: "in one directory",
  pattern: "with similar names",
  type: "of one type",
};

const BoxNode = memo(function BoxNode({ data }: NodeProps<Node<BoxData>>) {
  const { box, dim, chosen, open } = data;
  const icon = family(box.type, box.execution);
  const group = box.kind === "group";
  const title = group
    ? `${count(box.members)} vertices ${GROUPED_BY[box.by ?? ""] ?? ""}`
    : `${box.id}${box.version ? `\n${box.version}` : ""}`;
  return (
    <div
      className={`lbox t-${icon}${dim ? " dim" : ""}${chosen ? " chosen" : ""}${group ? " group" : ""}${box.focus ? " focus" : ""}${box.deleted ? " deleted" : ""}`}
      title={title}
    >
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <Icon name={icon} />
      <div className="ltext">
        <div className="clip name">{group ? `${count(box.members)} × ${middle(box.label, 24)}` : middle(box.label, 30)}</div>
        <div className="clip detail">{box.detail || box.type}</div>
      </div>
      {(box.up > 0 || open?.up) && !group && (
        <button
          type="button"
          className="more left nodrag"
          aria-label={open?.up ? `Hide the boxes before ${box.label}` : `Show ${box.up} more before ${box.label}`}
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
          aria-label={open?.down ? `Hide the boxes after ${box.label}` : `Show ${box.down} more after ${box.label}`}
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
          aria-label={`Show the ${box.members} vertices of ${box.label} one by one`}
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
  const name = `lline${data.dim ? " dim" : ""}${data.strong ? " strong" : ""}${data.concurrent ? " concurrent" : ""}`;
  return <BaseEdge path={curve(data.points)} className={name} />;
});

/** Limits of the zoom that fits the picture: a wide picture stays readable, and is moved instead. */
const FIT = { padding: 0.1, maxZoom: 1.1, minZoom: 0.45 };

const nodeTypes = { box: BoxNode };
const edgeTypes = { line: Line };

/** Picture of lineage: a click selects a box, a double click makes it the subject, buttons expand and split boxes. */
export function PictureView({ picture, chosen, highlight, open, onChoose, onExpand, onSplit }: Props) {
  const dark = useDark();
  const [flow, setFlow] = useState<ReactFlowInstance<Node<BoxData>, Edge<LineData>> | null>(null);
  const previous = useRef({ boxes: 0, asOf: picture.as_of });
  // A picture as of another version, or of a very different size, is fitted into the view.
  useEffect(() => {
    const { boxes, asOf } = previous.current;
    const size = picture.boxes.length;
    previous.current = { boxes: size, asOf: picture.as_of };
    if (flow && (asOf !== picture.as_of || size > boxes * 1.5 || size < boxes * 0.67)) {
      const timer = window.setTimeout(() => flow.fitView({ ...FIT, duration: 200 }), 60);
      return () => window.clearTimeout(timer);
    }
  }, [picture, flow]);
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
            dim: highlight !== null && !highlight.boxes.has(box.id),
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
    [picture, chosen, highlight, open, onExpand, onSplit],
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
            dim: highlight !== null && !highlight.lines.has(n),
            strong: highlight?.lines.has(n) ?? false,
            concurrent: line.concurrent,
            label: line.type,
          },
        }),
      ),
    [picture, highlight],
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
        const element = (e.target as HTMLElement).closest<HTMLElement>("[data-id]");
        if (e.key === "Enter" && element?.dataset.id) onChoose(element.dataset.id);
      }}
      onInit={setFlow}
      fitView
      fitViewOptions={FIT}
      minZoom={0.05}
      maxZoom={2}
      nodesDraggable={false}
      nodesConnectable={false}
      onlyRenderVisibleElements={picture.boxes.length > 150}
    >
      <Background variant={BackgroundVariant.Dots} gap={24} size={1} />
      <Controls showInteractive={false} />
      {picture.boxes.length > 30 && <MiniMap pannable zoomable ariaLabel="Overview of the picture" nodeStrokeWidth={3} />}
    </ReactFlow>
  );
}
