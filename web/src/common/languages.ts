// Languages of the editor. Their parsers only recognize what syntax colours need.

import type { StreamParser } from "@codemirror/language";
import { sparql as sparqlMode } from "@codemirror/legacy-modes/mode/sparql";
import type { Language } from "./CodeEditor";

const travelParser: StreamParser<unknown> = {
  name: "travel",
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^"([^"\\]|\\.)*"?/) || stream.match(/^'([^'])*'?/)) return "string";
    if (stream.match(/^\d[\d_.]*([kMGTPE]i?B?)?\b/)) return "number";
    if (stream.match(/^(EQ|IN|RANGE|true|false|null|type|max|t|x)\b/)) return "atom";
    if (stream.match(/^[a-z_]+(?=\s*\()/)) return "keyword";
    if (stream.match(/^[A-Za-z_]\w*/)) return "variableName";
    stream.next();
    return "operator";
  },
};

/** Language of traversals: `v().e().v()`. */
export const TRAVEL: Language = { name: "travel", parser: travelParser };
/** Language of SPARQL queries and updates. */
export const SPARQL: Language = { name: "sparql", parser: sparqlMode as StreamParser<unknown> };
