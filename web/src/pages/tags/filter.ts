// Filters made of clicked conditions, and tags typed as text.
import { filterName, filterValue } from "../../common/quote";

/** Adds a condition to a filter, unless the filter has it. */
export function and(filter: string, condition: string): string {
  const previous = filter.trim();
  if (!previous) return condition;
  if (previous.split(/\s+AND\s+/).includes(condition)) return previous;
  const needsBrackets = /\bOR\b/i.test(previous) && !/^\(.*\)$/s.test(previous);
  return `${needsBrackets ? `(${previous})` : previous} AND ${condition}`;
}

/** Returns the condition that a tag has a value. */
export function equals(name: string, value: unknown): string {
  return `${filterName(name)} = ${filterValue(value)}`;
}

/** Returns the condition that a tag is between two numbers, inclusive. */
export function between(name: string, low: number, high: number): string {
  return `${filterName(name)} BETWEEN ${low} AND ${high}`;
}

/** Parses tags such as `a=1, b=text, c`: values are JSON if they parse as JSON, except objects, and texts otherwise. */
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
      const parsed: unknown = JSON.parse(value);
      out[pair.slice(0, cut).trim()] = typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? value : parsed;
    } catch {
      out[pair.slice(0, cut).trim()] = value;
    }
  }
  return out;
}
