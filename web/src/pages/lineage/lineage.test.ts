// What is opened, what hangs together, and the picture as a file.
import { expect, test } from "vitest";
import { order } from "./AsOf";
import type { Box, Picture } from "./index";
import { opened, toggled } from "./open";
import { path } from "./path";
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

test("sides are opened and closed apart", () => {
  const once = toggled("", "file:/a b", "<");
  expect(once).toBe("<file:/a b");
  const both = toggled(once ?? "", "file:/a b", ">");
  expect(opened(both ?? "").get("file:/a b")).toEqual({ up: true, down: true });
  expect(toggled("<x", "x", "<")).toBe(null);
  expect(opened("x").get("x")).toEqual({ up: true, down: true });
});

test("the path goes back and on, and no further than it leads", () => {
  const lit = path(picture, "b");
  expect([...(lit?.boxes ?? [])].sort()).toEqual(["a", "b", "c", "d", "x"]);
  const end = path(picture, "x");
  expect([...(end?.boxes ?? [])].sort()).toEqual(["a", "b", "x"]);
  expect([...(end?.lines ?? [])].sort()).toEqual([0, 3]);
  expect(path(picture, "nowhere")).toBe(null);
});

test("versions of one millisecond have their order", () => {
  const all = ["2026-01-01T00:00:00.001Z~5", "2026-01-01T00:00:00.001Z", "2025-12-31T23:59:59Z~99"];
  expect([...all].sort(order)).toEqual([all[2], all[1], all[0]]);
});

test("a picture is a document with every box, and names cannot break it", () => {
  const odd = { ...picture, boxes: [...picture.boxes, box('<&">', 600)] };
  const text = svg(odd);
  const read = new DOMParser().parseFromString(text, "image/svg+xml");
  expect(read.querySelector("parsererror")).toBe(null);
  expect(text.match(/<rect /g)).toHaveLength(odd.boxes.length + 1);
  expect(text).toContain("&lt;&amp;&quot;&gt;");
});
