// Quoting of texts for other languages, so that copied commands and programs run as they are.

/** Returns a text as one word of a shell. */
export function shell(text: string): string {
  if (/^[A-Za-z0-9_./:=@%+,-]+$/.test(text)) return text;
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns a text as a string literal of Python. */
export function python(text: string): string {
  return JSON.stringify(text);
}

/** Returns a text as a string literal of a traversal. */
export function travel(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** Returns a name for a filter, quoted if it needs quotes. */
export function filterName(name: string): string {
  return /^[\p{L}_][\p{L}\p{N}_]*([-.:/][\p{L}\p{N}_]+)*$/u.test(name) && !KEYWORDS.has(name.toUpperCase())
    ? name
    : `"${name.replaceAll('"', '""')}"`;
}

const KEYWORDS = new Set(
  "AND OR NOT EXISTS BETWEEN IN LIKE ILIKE GLOB STARTS ENDS WITH MATCHES CONTAINS TRUE FALSE NULL AGO".split(" "),
);

/** Returns a value as a literal of a filter. */
export function filterValue(v: unknown): string {
  if (v === null) return "null";
  if (typeof v === "number" || typeof v === "boolean") return String(v);
  if (Array.isArray(v)) return `[${v.map(filterValue).join(", ")}]`;
  return `'${String(v).replaceAll("'", "''")}'`;
}

/** Returns a value as a field of CSV. */
export function csv(cell: unknown): string {
  const text = cell === null || cell === undefined ? "" : typeof cell === "object" ? JSON.stringify(cell) : String(cell);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
