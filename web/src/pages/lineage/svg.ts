// The picture as a standalone SVG document, in light colours for print.
import { count, middle } from "../../common/format";
import { family } from "../../common/icons";
import { curve } from "./curve";
import type { Picture } from "./index";

const COLOURS: Record<string, string> = {
  data: "#0072b2",
  run: "#bf4c00",
  user: "#007a59",
  exe: "#a8447f",
  object: "#3d6fb6",
  dir: "#8a6100",
  other: "#5f6b76",
};
/** Margin around the picture in pixels. */
const MARGIN = 24;

/** Escapes a text for XML content and attributes. */
export function xml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

/** Returns the picture as an SVG document. */
export function svg(picture: Picture): string {
  const width = Math.ceil(picture.width + 2 * MARGIN);
  const height = Math.ceil(picture.height + 2 * MARGIN + 24);
  const out = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="${-MARGIN} ${-MARGIN} ${width} ${height}" font-family="system-ui, sans-serif">`,
    `<title>Lineage of ${xml(picture.focus)}</title>`,
    `<rect x="${-MARGIN}" y="${-MARGIN}" width="${width}" height="${height}" fill="#ffffff"/>`,
  ];
  for (const line of picture.lines) {
    const dash = line.concurrent ? ' stroke-dasharray="5 4"' : "";
    out.push(
      `<path d="${curve(line.points)}" fill="none" stroke="#4c5a67" stroke-width="1.4"${dash}><title>${xml(`${line.from} ${line.type} ${line.to}`)}</title></path>`,
    );
  }
  for (const box of picture.boxes) {
    const colour = COLOURS[family(box.type, box.execution)] ?? COLOURS.other;
    const label = box.kind === "group" ? `${count(box.members)} × ${middle(box.label, 22)}` : middle(box.label, 28);
    out.push(
      `<g><title>${xml(box.id)}</title><rect x="${box.x}" y="${box.y}" width="${box.w}" height="${box.h}" rx="8" fill="${box.focus ? "#dcedf5" : "#ffffff"}" stroke="${colour}" stroke-width="${box.kind === "group" ? 3 : 1.5}"/>`,
      `<text x="${box.x + 12}" y="${box.y + 21}" font-size="13" font-weight="600" fill="#17212b">${xml(label)}</text>`,
      `<text x="${box.x + 12}" y="${box.y + 37}" font-size="11.5" fill="#4c5a67">${xml(middle(box.detail || box.type, 28))}</text></g>`,
    );
  }
  const state = picture.as_of ? `as of ${picture.as_of}` : "as it is now";
  out.push(
    `<text x="0" y="${picture.height + 20}" font-size="11" fill="#4c5a67">Lineage of ${xml(picture.focus)}, ${xml(state)} · Esker</text>`,
    "</svg>",
  );
  return out.join("\n");
}
