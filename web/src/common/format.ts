// Formats of numbers, times, names and attribute values for display.

const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Formats a number of bytes with a binary unit: `1.5 MiB`. */
export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  let value = n / 1024;
  let unit = 0;
  while (value >= 1023.95 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit++;
  }
  return `${value.toFixed(1)} ${UNITS[unit]}`;
}

/** Formats a whole number with separators: `12,345`. */
export function count(n: number): string {
  return n.toLocaleString("en-GB");
}

/** Formats a number with at most five characters: `12.3k`. */
export function short(n: number): string {
  if (Math.abs(n) < 1000) return Number.isInteger(n) ? String(n) : n.toFixed(1);
  for (const [size, unit] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (Math.abs(n) >= size) return `${(n / size).toFixed(n >= 100 * size ? 0 : 1)}${unit}`;
  }
  return String(n);
}

/** Formats a duration in seconds: `250 ms`, `3 min 20 s`. */
export function seconds(s: number): string {
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s / 3600) % 24)} h`;
}

/** Converts a version or a time to milliseconds since 1970. */
export function millis(text: string): number {
  return Date.parse(text.replace(/~\d+$/, ""));
}

/** Formats a version or a time in UTC: `2026-03-01 12:30:05`. */
export function time(text: string | null | undefined): string {
  if (!text) return "";
  const at = millis(text);
  if (Number.isNaN(at)) return text;
  return new Date(at).toISOString().replace("T", " ").slice(0, 19);
}

/** Formats the age of a version or a time: `5 min ago`; 60 days and older as a date. */
export function ago(text: string | null | undefined, now = Date.now()): string {
  if (!text) return "";
  const at = millis(text);
  if (Number.isNaN(at)) return text;
  const s = (now - at) / 1000;
  if (s < -60) return time(text);
  if (s < 5) return "just now";
  if (s < 60) return `${Math.floor(s)} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  if (s < 86400 * 60) return `${Math.floor(s / 86400)} d ago`;
  return time(text).slice(0, 10);
}

/** Shortens a text to `max` characters by an ellipsis in its middle, because both ends of a name distinguish it. */
export function middle(text: string, max: number): string {
  if (text.length <= max) return text;
  const tail = Math.ceil((max - 1) * 0.6);
  return `${text.slice(0, max - 1 - tail)}…${text.slice(-tail)}`;
}

/** Returns the last component of a path. */
export function lastPart(path: string): string {
  const trimmed = path.replace(/\/+$/, "");
  return trimmed.slice(trimmed.lastIndexOf("/") + 1) || path;
}

/** Formats the value of an attribute; a missing one is `–`. */
export function value(v: unknown): string {
  if (v === null || v === undefined) return "–";
  if (typeof v === "string") return v;
  if (typeof v === "number") return Number.isInteger(v) ? count(v) : String(v);
  return JSON.stringify(v);
}
