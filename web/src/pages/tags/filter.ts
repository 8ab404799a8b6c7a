// A filter, made of conditions that were clicked.
import { filterName, filterValue } from "../../common/quote";

/** With one more condition. */
export function and(filter: string, condition: string): string {
  const old = filter.trim();
  if (!old) return condition;
  if (old.split(/\s+AND\s+/).includes(condition)) return old;
  const needs = /\bOR\b/i.test(old) && !/^\(.*\)$/s.test(old);
  return `${needs ? `(${old})` : old} AND ${condition}`;
}

export function equals(name: string, value: unknown): string {
  return `${filterName(name)} = ${filterValue(value)}`;
}

export function between(name: string, low: number, high: number): string {
  return `${filterName(name)} BETWEEN ${low} AND ${high}`;
}

/** `a=1, b=text, c` as tags: numbers and words of JSON are what they say, everything else is text. */
export function tagsOf(text: string): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const part of text.split(",")) {
    const pair = part.trim();
    if (!pair) continue;
    const cut = pair.indexOf("=");
    if (cut < 0) {
      out[pair] = null;
      continue;
    }
    const value = pair.slice(cut + 1).trim();
    try {
      const read: unknown = JSON.parse(value);
      out[pair.slice(0, cut).trim()] = typeof read === "object" && read !== null && !Array.isArray(read) ? value : read;
    } catch {
      out[pair.slice(0, cut).trim()] = value;
    }
  }
  return out;
}
