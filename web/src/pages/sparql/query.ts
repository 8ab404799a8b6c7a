// Forms of SPARQL queries, positions of errors, and results as a graph.
import type { Schemas, TextRange } from "../../api/client";
import { unitToByte } from "../../common/bytes";
import { ringLayout } from "../neighbourhood/layout";

/** RDF term in SPARQL 1.1 Query Results JSON. */
export interface Term {
  type: "uri" | "literal" | "bnode" | "typed-literal" | "triple";
  value: string;
  datatype?: string;
  "xml:lang"?: string;
}

/** Removes comments, IRIs, strings and the prologue, so that the query begins with its keyword. */
function withoutPrologue(text: string): string {
  return text
    .replace(/"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, " ")
    .replace(/<[^<>\s]*>/g, " ")
    .replace(/#[^\n]*/g, " ")
    .replace(/\b(?:PREFIX\s+[^\s:]*:|BASE)\s/gi, " ")
    .trim();
}

/** Returns the first keyword in lower case, such as `select` or `insert`. */
export function queryForm(text: string): string {
  return (/^[a-z]+/i.exec(withoutPrologue(text))?.[0] ?? "").toLowerCase();
}

const UPDATES = ["insert", "delete", "load", "clear", "drop", "create", "add", "move", "copy", "with"];

/** Returns whether a text is an update. */
export function isUpdate(text: string): boolean {
  return UPDATES.includes(queryForm(text));
}

/** Returns the text of a term for display. */
export function termText(term: Term): string {
  if (term.type === "bnode") return `_:${term.value}`;
  if (term.type === "uri") return term.value;
  const lang = term["xml:lang"];
  return lang ? `${term.value} @${lang}` : term.value;
}

/** Returns the position that an error message states, as `line 2, column 7` or `2:7`, or null if it states none. */
export function errorRange(message: string, text: string): TextRange | null {
  const found = /line (\d+),? column (\d+)/i.exec(message) ?? /(?:^|\s|at )(\d+):(\d+)/.exec(message);
  if (!found) return null;
  const [line, column] = [Number(found[1]), Number(found[2])];
  const lines = text.split("\n");
  if (line < 1 || line > lines.length) return null;
  const before = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  const unit = before + Math.min(column - 1, lines[line - 1]?.length ?? 0);
  return { byte: unitToByte(text, unit), length: 1, line, column };
}

/** Parses N-Triples into subjects, predicates and objects. */
export function triples(text: string): [string, string, string][] {
  const out: [string, string, string][] = [];
  for (const line of text.split("\n")) {
    const found = /^(<[^>]*>|_:\S+)\s+(<[^>]*>)\s+(.*?)\s*\.\s*$/.exec(line);
    if (found) out.push([withoutBrackets(found[1]), withoutBrackets(found[2]), withoutBrackets(found[3])]);
  }
  return out;
}

function withoutBrackets(text: string | undefined): string {
  return (text ?? "").replace(/^<|>$/g, "");
}

/** Number of vertices above which a picture is not readable. */
const VERTICES_MAX = 4_000;

/** Triples as a graph for `GraphView`; `omitted` counts triples that the picture does not have. */
export interface TripleGraph {
  vertices: Schemas["Neighbourhood"]["vertices"];
  edges: [number, number, number][];
  types: string[];
  triples: [string, string, string][];
  omitted: number;
}

/** Returns the triples of a result as a graph: N-Triples in `raw`, or solutions with three variables; null if it has none. */
export function toGraph(bindings: Record<string, Term>[] | null, vars: string[], raw: string): TripleGraph | null {
  let all: [string, string, string][];
  if (bindings) {
    const [s, p, o] = vars;
    if (vars.length !== 3 || !s || !p || !o) return null;
    all = bindings.flatMap((row) => {
      const [a, b, c] = [row[s], row[p], row[o]];
      return a && b && c ? [[termText(a), termText(b), termText(c)] as [string, string, string]] : [];
    });
  } else {
    all = triples(raw);
  }
  if (all.length === 0) return null;
  const names = new Map<string, number>();
  const types: string[] = [];
  const edges: [number, number, number][] = [];
  let omitted = 0;
  const vertex = (name: string) => {
    const index = names.get(name);
    if (index !== undefined) return index;
    if (names.size >= VERTICES_MAX) return -1;
    names.set(name, names.size);
    return names.size - 1;
  };
  for (const [s, p, o] of all) {
    const [from, to] = [vertex(s), vertex(o)];
    if (from < 0 || to < 0) {
      omitted++;
      continue;
    }
    let type = types.indexOf(p);
    if (type < 0) type = types.push(p) - 1;
    edges.push([from, to, type]);
  }
  const positions = ringLayout(names.size, edges);
  const degrees = new Array<number>(names.size).fill(0);
  for (const [from, to] of edges) {
    degrees[from] = (degrees[from] ?? 0) + 1;
    degrees[to] = (degrees[to] ?? 0) + 1;
  }
  const vertices = [...names.keys()].map((id, n) => ({
    id,
    type: /^(https?|urn|file):/.test(id) ? "File" : "User",
    label: id.slice(Math.max(id.lastIndexOf("/"), id.lastIndexOf("#")) + 1) || id,
    x: positions[n]?.[0] ?? 0,
    y: positions[n]?.[1] ?? 0,
    degree: degrees[n] ?? 0,
    depth: 0,
  }));
  return { vertices, edges, types, triples: all, omitted };
}
