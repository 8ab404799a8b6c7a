// The whole path through a vertex: everything before it and everything after it, as far as the picture has it.
import type { Picture } from "./index";

export interface Lit {
  boxes: Set<string>;
  lines: Set<number>;
}

export function path(picture: Pick<Picture, "boxes" | "lines">, chosen: string): Lit | null {
  if (!picture.boxes.some((b) => b.id === chosen)) return null;
  const boxes = new Set([chosen]);
  const lines = new Set<number>();
  const follow = (from: "from" | "to", to: "from" | "to") => {
    const seen = new Set([chosen]);
    let frontier = [chosen];
    while (frontier.length > 0) {
      const next: string[] = [];
      picture.lines.forEach((line, n) => {
        if (!frontier.includes(line[from])) return;
        lines.add(n);
        boxes.add(line[to]);
        if (!seen.has(line[to])) {
          seen.add(line[to]);
          next.push(line[to]);
        }
      });
      frontier = next;
    }
  };
  follow("to", "from");
  follow("from", "to");
  return { boxes, lines };
}
