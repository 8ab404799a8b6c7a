// Expanded boxes, highlighted paths, the order of versions, and the SVG document.
import { expect, test } from "vitest";
import { compareVersions } from "./AsOf";
import { parseExpansions, toggleExpansion } from "./expansion";
import { highlightPaths } from "./highlight";
import type { Box, Picture } from "./index";
import { svg } from "./svg";

const box = (id: string, x: number): Box => ({
  id,
  kind: "vertex",
  type: "File",
  execution: false,
  label: id,
  detail: "",
  x,
  y: 0,
  w: 100,
  h: 40,
  layer: 0,
  focus: false,
  version: null,
  deleted: false,
  up: 0,
  down: 0,
  members: 0,
  by: null,
});
const line = (from: string, to: string) => ({
  from,
  to,
  type: "read",
  points: [
    [0, 0],
    [10, 5],
  ],
  version: "1",
  count: 1,
  concurrent: false,
  back: false,
});
const picture: Picture = {
  focus: "c",
  as_of: null,
  width: 500,
  height: 100,
  boxes: ["a", "b", "c", "d", "x"].map((id, n) => box(id, n * 120)),
  lines: [line("a", "b"), line("b", "c"), line("c", "d"), line("b", "x"), line("d", "c")],
  stopped: [],
  left_out: 0,
  versions: [],
  versions_cut: false,
  layout_micros: 0,
  micros: 0,
};

test("the two sides of a box expand and collapse independently", () => {
  const up = toggleExpansion("", "file:/a b", "<");
  expect(up).toBe("<file:/a b");
  const both = toggleExpansion(up ?? "", "file:/a b", ">");
  expect(parseExpansions(both ?? "").get("file:/a b")).toEqual({ up: true, down: true });
  expect(toggleExpansion("<x", "x", "<")).toBe(null);
  expect(parseExpansions("x").get("x")).toEqual({ up: true, down: true });
});

test("highlighted paths lead to all boxes before and after, and to no other", () => {
  const inner = highlightPaths(picture, "b");
  expect([...(inner?.boxes ?? [])].sort()).toEqual(["a", "b", "c", "d", "x"]);
  const end = highlightPaths(picture, "x");
  expect([...(end?.boxes ?? [])].sort()).toEqual(["a", "b", "x"]);
  expect([...(end?.lines ?? [])].sort()).toEqual([0, 3]);
  expect(highlightPaths(picture, "nowhere")).toBe(null);
});

test("the count orders versions of one millisecond", () => {
  const all = ["2026-01-01T00:00:00.001Z~5", "2026-01-01T00:00:00.001Z", "2025-12-31T23:59:59Z~99"];
  expect([...all].sort(compareVersions)).toEqual([all[2], all[1], all[0]]);
});

test("the SVG document has every box, and escapes names", () => {
  const odd = { ...picture, boxes: [...picture.boxes, box('<&">', 600)] };
  const text = svg(odd);
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
  expect(parsed.querySelector("parsererror")).toBe(null);
  expect(text.match(/<rect /g)).toHaveLength(odd.boxes.length + 1);
  expect(text).toContain("&lt;&amp;&quot;&gt;");
});
