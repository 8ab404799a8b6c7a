// Layout of graphs in rings.
import { expect, test } from "vitest";
import { ringLayout } from "./layout";

test("no two vertices overlap", () => {
  const lines: number[][] = [];
  for (let n = 1; n < 200; n++) lines.push([n % 7 === 0 ? n : Math.floor(n / 3), n]);
  const positions = ringLayout(200, lines);
  positions.forEach(([x, y], n) => {
    expect(Number.isFinite(x) && Number.isFinite(y)).toBe(true);
    for (const [a, b] of positions.slice(0, n)) expect(Math.hypot(x - a, y - b)).toBeGreaterThan(0.3);
  });
});
