// Layout of graphs that the server sends without coordinates.

/** Returns coordinates of `count` vertices: each connected component has its vertex of the highest degree in the centre, and the others in
 * rings by their distance from it. Components are put side by side in rows. `lines` are pairs of vertex numbers. */
export function ringLayout(count: number, lines: readonly (readonly number[])[]): [number, number][] {
  const neighbours: number[][] = Array.from({ length: count }, () => []);
  for (const [from = 0, to = 0] of lines) {
    neighbours[from]?.push(to);
    neighbours[to]?.push(from);
  }
  const positions: [number, number][] = Array.from({ length: count }, () => [0, 0]);
  const visited = new Uint8Array(count);
  const order = Array.from({ length: count }, (_, n) => n).sort(
    (a, b) => (neighbours[b]?.length ?? 0) - (neighbours[a]?.length ?? 0),
  );
  let left = 0;
  let top = 0;
  let height = 0;
  const width = Math.max(12, Math.sqrt(count) * 2.4);
  for (const start of order) {
    if (visited[start]) continue;
    visited[start] = 1;
    const levels: number[][] = [[start]];
    for (let at = 0; at < levels.length; at++) {
      const next: number[] = [];
      for (const n of levels[at] ?? []) {
        for (const neighbour of neighbours[n] ?? []) {
          if (!visited[neighbour]) {
            visited[neighbour] = 1;
            next.push(neighbour);
          }
        }
      }
      if (next.length > 0) levels.push(next);
    }
    let radius = 0;
    const component: [number, number, number][] = [];
    levels.forEach((level, depth) => {
      if (depth > 0) radius = Math.max(radius + 1.2, (level.length * 1.05) / (2 * Math.PI));
      level.forEach((n, i) => {
        const angle = (2 * Math.PI * i) / level.length + depth * 0.4;
        component.push([n, radius * Math.cos(angle), radius * Math.sin(angle)]);
      });
    });
    const size = 2 * radius + 1.4;
    if (left > 0 && left + size > width) {
      left = 0;
      top += height;
      height = 0;
    }
    for (const [n, x, y] of component) positions[n] = [left + size / 2 + x, -(top + size / 2) + y];
    left += size;
    height = Math.max(height, size);
  }
  return positions;
}
