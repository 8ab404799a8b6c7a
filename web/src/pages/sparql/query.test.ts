// Query forms, positions of errors, and triples as a graph.
import { expect, test } from "vitest";
import { errorRange, isUpdate, queryForm, toGraph, triples } from "./query";

test("the first keyword distinguishes queries from updates", () => {
  expect(queryForm("PREFIX a: <http://x/#insert>\nSELECT * { ?s ?p 'delete' }")).toBe("select");
  expect(queryForm("# insert\nBASE <http://x/>\nconstruct where { ?s ?p ?o }")).toBe("construct");
  expect(isUpdate("PREFIX insert: <http://x/>\nASK { ?s insert:x 1 }")).toBe(false);
  expect(isUpdate("  insert data { <a> <b> <c> }")).toBe(true);
  expect(isUpdate("WITH <g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }")).toBe(true);
});

test("the position of an error is read from its message", () => {
  const range = errorRange("syntax error at 2:8: expected }", "SELECT ?ü\nWHERE { ?s");
  expect(range).toEqual({ byte: 18, length: 1, line: 2, column: 8 });
  expect(errorRange("no position", "x")).toBe(null);
  expect(errorRange("at 9:1", "x")).toBe(null);
});

test("triples become a graph", () => {
  const text = '<http://x/a> <http://x/p> "a. b" .\n<http://x/a> <http://x/q> _:b1 .\n';
  expect(triples(text)).toEqual([
    ["http://x/a", "http://x/p", '"a. b"'],
    ["http://x/a", "http://x/q", "_:b1"],
  ]);
  const graph = toGraph(null, [], text);
  expect(graph?.vertices).toHaveLength(3);
  expect(graph?.edges.map((e) => graph.types[e[2]])).toEqual(["http://x/p", "http://x/q"]);
  expect(toGraph([], ["s", "p"], "")).toBe(null);
});
