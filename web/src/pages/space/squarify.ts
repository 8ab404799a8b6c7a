// Squarified treemaps: rectangles close to squares (Bruls, Huizing and van Wijk, "Squarified Treemaps", 2000).

/** Rectangle by its upper left corner, width and height, in pixels. */
export interface Rect {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Divides a rectangle in proportion to weights in descending order; weights of zero or less get no area. */
export function squarify(weights: readonly number[], within: Rect): Rect[] {
  const total = weights.reduce((a, b) => a + Math.max(0, b), 0);
  if (total <= 0 || within.w <= 0 || within.h <= 0) return weights.map(() => ({ x: within.x, y: within.y, w: 0, h: 0 }));
  const scale = (within.w * within.h) / total;
  const areas = weights.map((w) => Math.max(0, w) * scale);
  const out: Rect[] = [];
  let left = { ...within };
  let from = 0;
  while (from < areas.length) {
    const side = Math.min(left.w, left.h);
    let to = from;
    let sum = 0;
    let best = Number.POSITIVE_INFINITY;
    while (to < areas.length) {
      const area = areas[to] ?? 0;
      const next = worst(areas.slice(from, to + 1), sum + area, side);
      if (to > from && next > best) break;
      best = next;
      sum += area;
      to++;
    }
    const thick = side > 0 ? sum / side : 0;
    let at = 0;
    for (const area of areas.slice(from, to)) {
      const long = thick > 0 ? area / thick : 0;
      out.push(
        left.w >= left.h ? { x: left.x, y: left.y + at, w: thick, h: long } : { x: left.x + at, y: left.y, w: long, h: thick },
      );
      at += long;
    }
    left =
      left.w >= left.h
        ? { x: left.x + thick, y: left.y, w: Math.max(0, left.w - thick), h: left.h }
        : { x: left.x, y: left.y + thick, w: left.w, h: Math.max(0, left.h - thick) };
    from = to;
  }
  return out;
}

/** Returns the worst aspect ratio in a row. */
function worst(row: readonly number[], sum: number, side: number): number {
  if (sum <= 0 || side <= 0) return Number.POSITIVE_INFINITY;
  let most = 0;
  for (const area of row) {
    if (area <= 0) continue;
    const ratio = Math.max((side * side * area) / (sum * sum), (sum * sum) / (side * side * area));
    most = Math.max(most, ratio);
  }
  return most;
}
