// The response to a traversal, as JSON, and as text.
import type { Schemas } from "../../api/client";

/** Counts and time of one step, over all servers. */
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

/** Counts and times of one step on one server. */
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

/** An edge with its version and properties. */
export interface Edge {
  src: string;
  type: string;
  dst: string;
  version: string;
  properties: Record<string, unknown>;
}

/** Response to a traversal: sets of vertices and, with `return_fp()`, edges. */
export interface TravelResult {
  target: string | string[];
  complete: boolean;
  stopped: { reason: string; step: number; vertices_left: number }[];
  vertices?: Schemas["Vertex"][];
  edges?: Edge[];
  sets?: { hop: number; vertices: Schemas["Vertex"][] }[];
  profile?: Step[];
  servers?: ServerStep[];
}

const LINES_MAX = 5_000;

/** Returns the result as the command line prints it: one edge or one vertex a line. */
export function asText(result: TravelResult): string {
  const lines = result.edges
    ? result.edges.map((e) => `${e.src} -${e.type}-> ${e.dst}`)
    : (result.sets ?? []).flatMap((s) => s.vertices.map((v) => v.id));
  if (lines.length === 0) return "(no results)";
  const rest = lines.length - LINES_MAX;
  return rest > 0 ? `${lines.slice(0, LINES_MAX).join("\n")}\n… and ${rest} more` : lines.join("\n");
}
