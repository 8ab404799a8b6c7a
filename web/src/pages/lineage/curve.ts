// Curves of the lines between boxes.

/** Returns an SVG path through points; it is horizontal at both ends. */
export function curve(points: readonly (readonly number[])[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let text = `M${round(first[0])} ${round(first[1])}`;
  let from = first;
  for (const to of rest) {
    const middle = ((from[0] ?? 0) + (to[0] ?? 0)) / 2;
    text += `C${round(middle)} ${round(from[1])} ${round(middle)} ${round(to[1])} ${round(to[0])} ${round(to[1])}`;
    from = to;
  }
  return text;
}

function round(n: number | undefined): string {
  return String(Math.round((n ?? 0) * 10) / 10);
}
