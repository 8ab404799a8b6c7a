// Links to vertices, with the icon of their type.
import { href } from "../app/router";
import { lastPart } from "./format";
import { familyOf, Icon } from "./icons";

/** Link to the page of a vertex; its text is the label, the last part of the key or, with `fullName`, the id. */
export function VertexLink({
  id,
  label,
  type,
  fullName,
}: {
  id: string;
  label?: string | null;
  type?: string | null;
  fullName?: boolean;
}) {
  const family = familyOf(id);
  const key = id.slice(id.indexOf(":") + 1);
  const text = fullName ? id : label || (key.includes("/") ? lastPart(key) : key);
  return (
    <a href={vertexHref(id)} title={`${id}${type ? ` (${type})` : ""}`}>
      <Icon name={family} className={`t-${family}`} /> {text}
    </a>
  );
}

/** Returns the address of a vertex: the page of a run, or the lineage of any other vertex. */
export function vertexHref(id: string): string {
  return familyOf(id) === "run" ? href("run", { id }) : href("lineage", { id });
}
