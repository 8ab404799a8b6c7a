// The highlighted part of a picture: the selected box, and all boxes before and after it.
import type { Picture } from "./index";

/** Ids of highlighted boxes and indexes of highlighted lines. */
export interface Highlight {
  boxes: Set<string>;
  lines: Set<number>;
}

/** Returns the boxes and lines on paths through the selected box, or null if the picture does not have it. */
export function highlightPaths(picture: Pick<Picture, "boxes" | "lines">, chosen: string): Highlight | null {
  if (!picture.boxes.some((b) => b.id === chosen)) return null;
  const boxes = new Set([chosen]);
  const lines = new Set<number>();
  const follow = (from: "from" | "to", to: "from" | "to") => {
    const visited = new Set([chosen]);
    let frontier = [chosen];
    while (frontier.length > 0) {
      const next: string[] = [];
      picture.lines.forEach((line, n) => {
        if (!frontier.includes(line[from])) return;
        lines.add(n);
        boxes.add(line[to]);
        if (!visited.has(line[to])) {
          visited.add(line[to]);
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
