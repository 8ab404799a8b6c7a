// Icons: each type has a shape and a colour, so that both distinguish it.
import type { JSX } from "react";

const shapes: Record<string, JSX.Element> = {
  data: <path d="M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3M5.5 8h5M5.5 11h5" />,
  run: <path d="M8 1.8 13.4 5v6L8 14.2 2.6 11V5zM6.4 5.6v4.8L10.4 8z" />,
  user: <path d="M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.5 14.5c0-3 2.5-5 5.5-5s5.5 2 5.5 5" />,
  exe: (
    <path d="M4.5 4.5h7v7h-7zM6.5 4.5v-3M9.5 4.5v-3M6.5 14.5v-3M9.5 14.5v-3M4.5 6.5h-3M4.5 9.5h-3M14.5 6.5h-3M14.5 9.5h-3" />
  ),
  object: <path d="M8 1.5 14 4.8v6.4l-6 3.3-6-3.3V4.8zM2 4.8l6 3.4 6-3.4M8 8.2v6.3" />,
  dir: <path d="M1.5 3.5h4.6l1.6 2h6.8v8h-13z" />,
  other: <circle cx="8" cy="8" r="5.5" />,
  home: <path d="M2 7.5 8 2l6 5.5M3.5 6.5v8h9v-8M6.5 14.5v-5h3v5" />,
  search: <path d="M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.7 10.7l3.8 3.8" />,
  lineage: (
    <path d="M4.5 4A1.7 1.7 0 1 1 1 4a1.7 1.7 0 0 1 3.5 0zM4.5 12A1.7 1.7 0 1 1 1 12a1.7 1.7 0 0 1 3.5 0zM15 8a1.7 1.7 0 1 1-3.5 0A1.7 1.7 0 0 1 15 8zM4.5 4c4 0 3 4 7 4M4.5 12c4 0 3-4 7-4" />
  ),
  runs: <path d="M2 3.5h12M2 8h12M2 12.5h8" />,
  space: <path d="M1.5 1.5h13v13h-13zM8 1.5v13M8 6h6.5M1.5 9.5H8" />,
  tags: <path d="M1.5 1.5h6l7 7-6 6-7-7zM5 5h.01" />,
  travel: <path d="M3 3.5h3v3H3zM10 9.5h3v3h-3zM6 5h3.5a2 2 0 0 1 2 2v2.5" />,
  sparql: <path d="M8 2v3M8 11v3M2 8h3M11 8h3M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z" />,
  cluster: <path d="M2 2.5h12v4H2zM2 9.5h12v4H2zM4.5 4.5h.01M4.5 11.5h.01" />,
  sites: <path d="M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM1.5 8h13M8 1.5c4 4 4 9 0 13M8 1.5c-4 4-4 9 0 13" />,
  theme: <path d="M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12" />,
  copy: <path d="M5.5 5.5h8v9h-8zM10.5 5.5v-4h-8v9h3" />,
  ok: <path d="M3 8.5 6.5 12 13 4.5" />,
  warn: <path d="M8 2 15 14H1zM8 6.5v3.5M8 12h.01" />,
  plus: <path d="M8 3v10M3 8h10" />,
};

/** Icon of 16 by 16 units by its name; an unknown name is a circle. */
export function Icon({ name, className = "" }: { name: string; className?: string }) {
  return (
    <svg
      className={`icon ${className}`}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinejoin="round"
      strokeLinecap="round"
      aria-hidden="true"
      focusable="false"
    >
      {shapes[name] ?? shapes.other}
    </svg>
  );
}

/** Returns the family of a vertex type, which selects icon and colour. An execution of a type from a user's schema is a run. */
export function family(type: string | null | undefined, execution = false): string {
  switch (type) {
    case "Job":
    case "Execution":
    case "Process":
      return "run";
    case "User":
    case "Group":
      return "user";
    case "Executable":
      return "exe";
    case "Object":
      return "object";
    case "Directory":
      return "dir";
    case "File":
    case "DataObject":
      return "data";
    default:
      return execution ? "run" : "other";
  }
}

/** Returns the family of a vertex by the type in its id. */
export function familyOf(id: string): string {
  const prefix = id.slice(0, id.indexOf(":"));
  return family(prefix.charAt(0).toUpperCase() + prefix.slice(1));
}

/** Icon of a vertex type, in the colour of its family. */
export function TypeIcon({ type, execution }: { type: string | null | undefined; execution?: boolean }) {
  const name = family(type, execution);
  return <Icon name={name} className={`t-${name}`} />;
}
