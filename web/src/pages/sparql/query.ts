// What a query is, and what its answers are.
import type { Place, Schemas } from "../../api/client";
import { unitToByte } from "../../common/bytes";
import { rings } from "../around/place";

export interface Term {
  type: "uri" | "literal" | "bnode" | "typed-literal" | "triple";
  value: string;
  datatype?: string;
  "xml:lang"?: string;
}

/** Without comments, IRIs, strings and the prologue: only words. */
function words(text: string): string {
  return text
    .replace(/"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, " ")
    .replace(/<[^<>\s]*>/g, " ")
    .replace(/#[^\n]*/g, " ")
    .replace(/\b(?:PREFIX\s+[^\s:]*:|BASE)\s/gi, " ")
    .trim();
}

export function kindOf(text: string): string {
  return (/^[a-z]+/i.exec(words(text))?.[0] ?? "").toLowerCase();
}

const UPDATES = ["insert", "delete", "load", "clear", "drop", "create", "add", "move", "copy", "with"];

export function isUpdate(text: string): boolean {
  return UPDATES.includes(kindOf(text));
}

export function shown(term: Term): string {
  if (term.type === "bnode") return `_:${term.value}`;
  if (term.type === "uri") return term.value;
  const lang = term["xml:lang"];
  return lang ? `${term.value} @${lang}` : term.value;
}

/** Where a message says that the mistake is: `line 2, column 7`, `2:7`. */
export function placeOf(message: string, text: string): Place | null {
  const found = /line (\d+),? column (\d+)/i.exec(message) ?? /(?:^|\s|at )(\d+):(\d+)/.exec(message);
  if (!found) return null;
  const [line, column] = [Number(found[1]), Number(found[2])];
  const lines = text.split("\n");
  if (line < 1 || line > lines.length) return null;
  const before = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  const unit = before + Math.min(column - 1, lines[line - 1]?.length ?? 0);
  return { byte: unitToByte(text, unit), length: 1, line, column };
}

/** Lines of N-Triples as three texts each. */
export function triples(text: string): [string, string, string][] {
  const out: [string, string, string][] = [];
  for (const line of text.split("\n")) {
    const found = /^(<[^>]*>|_:\S+)\s+(<[^>]*>)\s+(.*?)\s*\.\s*$/.exec(line);
    if (found) out.push([bare(found[1]), bare(found[2]), bare(found[3])]);
  }
  return out;
}

function bare(text: string | undefined): string {
  return (text ?? "").replace(/^<|>$/g, "");
}

const MOST = 4_000;

export interface Drawn {
  vertices: Schemas["Neighbourhood"]["vertices"];
  edges: [number, number, number][];
  types: string[];
  triples: [string, string, string][];
  held: number;
}

/** Triples as a graph: of a CONSTRUCT as it came, of a SELECT with three columns. */
export function graphOf(bindings: Record<string, Term>[] | null, vars: string[], raw: string): Drawn | null {
  let all: [string, string, string][];
  if (bindings) {
    const [s, p, o] = vars;
    if (vars.length !== 3 || !s || !p || !o) return null;
    all = bindings.flatMap((row) => {
      const [a, b, c] = [row[s], row[p], row[o]];
      return a && b && c ? [[shown(a), shown(b), shown(c)] as [string, string, string]] : [];
    });
  } else {
    all = triples(raw);
  }
  if (all.length === 0) return null;
  const names = new Map<string, number>();
  const types: string[] = [];
  const edges: [number, number, number][] = [];
  let held = 0;
  const vertex = (name: string) => {
    const known = names.get(name);
    if (known !== undefined) return known;
    if (names.size >= MOST) return -1;
    names.set(name, names.size);
    return names.size - 1;
  };
  for (const [s, p, o] of all) {
    const [from, to] = [vertex(s), vertex(o)];
    if (from < 0 || to < 0) {
      held++;
      continue;
    }
    let type = types.indexOf(p);
    if (type < 0) type = types.push(p) - 1;
    edges.push([from, to, type]);
  }
  const places = rings(names.size, edges);
  const degrees = new Array<number>(names.size).fill(0);
  for (const [from, to] of edges) {
    degrees[from] = (degrees[from] ?? 0) + 1;
    degrees[to] = (degrees[to] ?? 0) + 1;
  }
  const vertices = [...names.keys()].map((id, n) => ({
    id,
    type: /^(https?|urn|file):/.test(id) ? "File" : "User",
    label: id.slice(Math.max(id.lastIndexOf("/"), id.lastIndexOf("#")) + 1) || id,
    x: places[n]?.[0] ?? 0,
    y: places[n]?.[1] ?? 0,
    degree: degrees[n] ?? 0,
    depth: 0,
  }));
  return { vertices, edges, types, triples: all, held };
}
