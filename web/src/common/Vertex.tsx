// A vertex by its name, with what one may do with it.
import { href } from "../app/router";
import { lastPart } from "./format";
import { familyOf, Icon } from "./icons";

export function VertexLink({
  id,
  label,
  type,
  whole,
}: {
  id: string;
  label?: string | null;
  type?: string | null;
  whole?: boolean;
}) {
  const of = familyOf(id);
  const key = id.slice(id.indexOf(":") + 1);
  const shown = whole ? id : label || (key.includes("/") ? lastPart(key) : key);
  return (
    <a href={target(id)} title={`${id}${type ? ` (${type})` : ""}`}>
      <Icon name={of} className={`t-${of}`} /> {shown}
    </a>
  );
}

/** The page of a vertex: of a run its own, else its lineage. */
export function target(id: string): string {
  return familyOf(id) === "run" ? href("run", { id }) : href("lineage", { id });
}
