// Texts as other languages have them: what is copied from a page works where it is put.

/** A word of a shell. */
export function shell(text: string): string {
  if (/^[A-Za-z0-9_./:=@%+,-]+$/.test(text)) return text;
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A string of Python. */
export function python(text: string): string {
  return JSON.stringify(text);
}

/** A string of a traversal. */
export function travel(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** A name of a filter. */
export function filterName(name: string): string {
  return /^[\p{L}_][\p{L}\p{N}_]*([-.:/][\p{L}\p{N}_]+)*$/u.test(name) && !KEYWORDS.has(name.toUpperCase())
    ? name
    : `"${name.replaceAll('"', '""')}"`;
}

const KEYWORDS = new Set(
  "AND OR NOT EXISTS BETWEEN IN LIKE ILIKE GLOB STARTS ENDS WITH MATCHES CONTAINS TRUE FALSE NULL AGO".split(" "),
);

/** A value of a filter. */
export function filterValue(v: unknown): string {
  if (v === null) return "null";
  if (typeof v === "number" || typeof v === "boolean") return String(v);
  if (Array.isArray(v)) return `[${v.map(filterValue).join(", ")}]`;
  return `'${String(v).replaceAll("'", "''")}'`;
}

/** A cell of a table with commas. */
export function csv(cell: unknown): string {
  const text = cell === null || cell === undefined ? "" : typeof cell === "object" ? JSON.stringify(cell) : String(cell);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
