// What a query is, and where it is wrong.
import { expect, test } from "vitest";
import { graphOf, isUpdate, kindOf, placeOf, triples } from "./query";

test("a query is told from an update by its first word", () => {
  expect(kindOf("PREFIX a: <http://x/#insert>\nSELECT * { ?s ?p 'delete' }")).toBe("select");
  expect(kindOf("# insert\nBASE <http://x/>\nconstruct where { ?s ?p ?o }")).toBe("construct");
  expect(isUpdate("PREFIX insert: <http://x/>\nASK { ?s insert:x 1 }")).toBe(false);
  expect(isUpdate("  insert data { <a> <b> <c> }")).toBe(true);
  expect(isUpdate("WITH <g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }")).toBe(true);
});

test("a message says where", () => {
  const place = placeOf("syntax error at 2:8: expected }", "SELECT ?ü\nWHERE { ?s");
  expect(place).toEqual({ byte: 18, length: 1, line: 2, column: 8 });
  expect(placeOf("no place", "x")).toBe(null);
  expect(placeOf("at 9:1", "x")).toBe(null);
});

test("triples become a graph", () => {
  const text = '<http://x/a> <http://x/p> "a. b" .\n<http://x/a> <http://x/q> _:b1 .\n';
  expect(triples(text)).toEqual([
    ["http://x/a", "http://x/p", '"a. b"'],
    ["http://x/a", "http://x/q", "_:b1"],
  ]);
  const graph = graphOf(null, [], text);
  expect(graph?.vertices).toHaveLength(3);
  expect(graph?.edges.map((e) => graph.types[e[2]])).toEqual(["http://x/p", "http://x/q"]);
  expect(graphOf([], ["s", "p"], "")).toBe(null);
});
