// What hangs together lies together, and no two dots on each other.
import { expect, test } from "vitest";
import { rings } from "./place";

test("no two dots lie on each other", () => {
  const lines: number[][] = [];
  for (let n = 1; n < 200; n++) lines.push([n % 7 === 0 ? n : Math.floor(n / 3), n]);
  const places = rings(200, lines);
  places.forEach(([x, y], n) => {
    expect(Number.isFinite(x) && Number.isFinite(y)).toBe(true);
    for (const [a, b] of places.slice(0, n)) expect(Math.hypot(x - a, y - b)).toBeGreaterThan(0.3);
  });
});
