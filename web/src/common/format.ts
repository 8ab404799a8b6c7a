// Numbers and times as people read them.

const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

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

export function count(n: number): string {
  return n.toLocaleString("en-GB");
}

/** `12.3k`, for narrow places. */
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

export function seconds(s: number): string {
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s / 3600) % 24)} h`;
}

/** A version or a time of an answer, as milliseconds since 1970. */
export function millis(text: string): number {
  return Date.parse(text.replace(/~\d+$/, ""));
}

/** `2026-03-01 12:30:05`, in UTC. */
export function time(text: string | null | undefined): string {
  if (!text) return "";
  const at = millis(text);
  if (Number.isNaN(at)) return text;
  return new Date(at).toISOString().replace("T", " ").slice(0, 19);
}

/** `5 min ago`. */
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

/** The middle of a long name is what matters least. */
export function middle(text: string, most: number): string {
  if (text.length <= most) return text;
  const tail = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, most - 1 - tail)}…${text.slice(-tail)}`;
}

export function lastPart(path: string): string {
  const trimmed = path.replace(/\/+$/, "");
  return trimmed.slice(trimmed.lastIndexOf("/") + 1) || path;
}

/** A value of an attribute, as text. */
export function value(v: unknown): string {
  if (v === null || v === undefined) return "–";
  if (typeof v === "string") return v;
  if (typeof v === "number") return Number.isInteger(v) ? count(v) : String(v);
  return JSON.stringify(v);
}
