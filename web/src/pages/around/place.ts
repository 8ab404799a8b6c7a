// Places for a graph that came without any: what hangs together lies together, in rings by distance from what has most edges.

export function rings(count: number, lines: readonly (readonly number[])[]): [number, number][] {
  const beside: number[][] = Array.from({ length: count }, () => []);
  for (const [from = 0, to = 0] of lines) {
    beside[from]?.push(to);
    beside[to]?.push(from);
  }
  const places: [number, number][] = Array.from({ length: count }, () => [0, 0]);
  const seen = new Uint8Array(count);
  const order = Array.from({ length: count }, (_, n) => n).sort((a, b) => (beside[b]?.length ?? 0) - (beside[a]?.length ?? 0));
  let left = 0;
  let row = 0;
  let below = 0;
  const width = Math.max(12, Math.sqrt(count) * 2.4);
  for (const start of order) {
    if (seen[start]) continue;
    seen[start] = 1;
    const levels: number[][] = [[start]];
    for (let at = 0; at < levels.length; at++) {
      const next: number[] = [];
      for (const n of levels[at] ?? []) {
        for (const other of beside[n] ?? []) {
          if (!seen[other]) {
            seen[other] = 1;
            next.push(other);
          }
        }
      }
      if (next.length > 0) levels.push(next);
    }
    let radius = 0;
    const own: [number, number, number][] = [];
    levels.forEach((level, depth) => {
      if (depth > 0) radius = Math.max(radius + 1.2, (level.length * 1.05) / (2 * Math.PI));
      level.forEach((n, i) => {
        const turn = (2 * Math.PI * i) / level.length + depth * 0.4;
        own.push([n, radius * Math.cos(turn), radius * Math.sin(turn)]);
      });
    });
    const size = 2 * radius + 1.4;
    if (left > 0 && left + size > width) {
      left = 0;
      row += below;
      below = 0;
    }
    for (const [n, x, y] of own) places[n] = [left + size / 2 + x, -(row + size / 2) + y];
    left += size;
    below = Math.max(below, size);
  }
  return places;
}
