// Squarified treemaps: areas, bounds and overlaps.
import { expect, test } from "vitest";
import { squarify } from "./squarify";

test("areas are in proportion and do not overlap", () => {
  const weights = [60, 30, 20, 20, 7, 3, 1, 0.5];
  const within = { x: 10, y: 20, w: 300, h: 200 };
  const all = squarify(weights, within);
  const total = weights.reduce((a, b) => a + b, 0);
  all.forEach((r, n) => {
    expect(r.w * r.h).toBeCloseTo(((weights[n] ?? 0) / total) * 60_000, 4);
    expect(r.x).toBeGreaterThanOrEqual(10 - 1e-6);
    expect(r.y + r.h).toBeLessThanOrEqual(220 + 1e-6);
    for (const other of all.slice(0, n)) {
      const wide = Math.min(r.x + r.w, other.x + other.w) - Math.max(r.x, other.x);
      const high = Math.min(r.y + r.h, other.y + other.h) - Math.max(r.y, other.y);
      expect(Math.min(wide, high)).toBeLessThanOrEqual(1e-6);
    }
  });
});

test("empty weights and empty rectangles are valid", () => {
  expect(squarify([], { x: 0, y: 0, w: 1, h: 1 })).toEqual([]);
  for (const r of squarify([0, 0], { x: 0, y: 0, w: 9, h: 9 })) expect(r.w * r.h).toBe(0);
  for (const r of squarify([1, 2], { x: 0, y: 0, w: -4, h: 9 })) expect(r.w * r.h).toBe(0);
});
