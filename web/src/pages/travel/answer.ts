// What a traversal answers with.
import type { Schemas } from "../../api/client";

export interface Step {
  step: number;
  text: string;
  frontier: number;
  edges: number;
  selected: number;
  reached: number;
  cached: number;
  micros: number;
}

export interface ServerStep {
  server: number;
  step: number;
  frontier: number;
  edges: number;
  vertices_micros: number;
  edges_micros: number;
  prefetch_micros: number;
  wait_micros: number;
}

export interface Edge {
  src: string;
  type: string;
  dst: string;
  version: string;
  properties: Record<string, unknown>;
}

export interface Answer {
  target: string | string[];
  complete: boolean;
  stopped: { reason: string; step: number; vertices_left: number }[];
  vertices?: Schemas["Vertex"][];
  edges?: Edge[];
  sets?: { hop: number; vertices: Schemas["Vertex"][] }[];
  profile?: Step[];
  servers?: ServerStep[];
}

const LINES = 5_000;

/** As a terminal shows it: a vertex a line, or an edge. */
export function asText(answer: Answer): string {
  const lines = answer.edges
    ? answer.edges.map((e) => `${e.src} -${e.type}-> ${e.dst}`)
    : (answer.sets ?? []).flatMap((s) => s.vertices.map((v) => v.id));
  if (lines.length === 0) return "(nothing)";
  const rest = lines.length - LINES;
  return rest > 0 ? `${lines.slice(0, LINES).join("\n")}\n… and ${rest} more` : lines.join("\n");
}
