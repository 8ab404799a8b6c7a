// What is opened, as the URL has it: names, one a line, `<` or `>` before one for one side only.

export interface Sides {
  up: boolean;
  down: boolean;
}

export function opened(text: string): Map<string, Sides> {
  const all = new Map<string, Sides>();
  for (const line of text.split("\n")) {
    if (!line) continue;
    const side = line[0] === "<" || line[0] === ">" ? line[0] : "";
    const name = side ? line.slice(1) : line;
    const sides = all.get(name) ?? { up: false, down: false };
    if (side !== ">") sides.up = true;
    if (side !== "<") sides.down = true;
    all.set(name, sides);
  }
  return all;
}

/** Opens what is closed, closes what is open. */
export function toggled(text: string, name: string, side: "<" | ">" | ""): string | null {
  const line = side + name;
  const lines = text.split("\n").filter(Boolean);
  const next = lines.includes(line) ? lines.filter((l) => l !== line) : [...lines, line];
  return next.length > 0 ? next.join("\n") : null;
}
