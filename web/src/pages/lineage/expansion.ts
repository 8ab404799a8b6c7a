// Expanded boxes in the URL: one id a line; `<` before an id expands only its inputs, `>` only its outputs,
// and an id alone both.

/** Sides on which a box is expanded: `up` to its inputs, `down` to its outputs. */
export interface Expansion {
  up: boolean;
  down: boolean;
}

/** Parses the expanded boxes, by id. */
export function parseExpansions(text: string): Map<string, Expansion> {
  const expansions = new Map<string, Expansion>();
  for (const line of text.split("\n")) {
    if (!line) continue;
    const side = line[0] === "<" || line[0] === ">" ? line[0] : "";
    const name = side ? line.slice(1) : line;
    const expansion = expansions.get(name) ?? { up: false, down: false };
    if (side !== ">") expansion.up = true;
    if (side !== "<") expansion.down = true;
    expansions.set(name, expansion);
  }
  return expansions;
}

/** Adds an id to the text or removes it; returns null for an empty text. */
export function toggleExpansion(text: string, name: string, side: "<" | ">" | ""): string | null {
  const line = side + name;
  const lines = text.split("\n").filter(Boolean);
  const next = lines.includes(line) ? lines.filter((l) => l !== line) : [...lines, line];
  return next.length > 0 ? next.join("\n") : null;
}
