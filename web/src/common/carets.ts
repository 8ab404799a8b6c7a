// Where a refusal's text points at: the server shows the line that it could not read, and marks its place beneath it.
import type { Place } from "../api/client";
import { unitToByte } from "./bytes";

/** The place that the marks (`^^^`) of a message stand under, in the text that was sent. */
export function pointed(message: string, text: string): Place | null {
  const lines = message.split("\n");
  const at = lines.findIndex((line, n) => n > 0 && /^\s*\^+\s*$/.test(line));
  const [marks, shown] = [lines[at], lines[at - 1]];
  if (!marks || shown === undefined) return null;
  const indent = shown.length - shown.trimStart().length;
  const sent = text.split("\n");
  const line = sent.findIndex((one) => one.trim() === shown.trim());
  const whole = sent[line];
  if (whole === undefined) return null;
  // What stands before the line's first word may differ: it is shown indented.
  const column = marks.indexOf("^") - indent + (whole.length - whole.trimStart().length);
  const before = sent.slice(0, line).join("\n").length + (line > 0 ? 1 : 0);
  const from = Math.max(0, Math.min(before + column, text.length));
  const to = Math.min(from + marks.trim().length, text.length);
  const byte = unitToByte(text, from);
  return { byte, length: unitToByte(text, to) - byte, line: line + 1, column: column + 1 };
}
