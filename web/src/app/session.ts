// Who looks at which database: asked once, for the texts that others are to run.
import { useSyncExternalStore } from "react";
import type { Schemas } from "../api/client";
import { python, shell } from "../common/quote";

export type Session = Schemas["Session"];
let session: Session | null = null;
const listeners = new Set<() => void>();

export function know(next: Session | null) {
  session = next;
  for (const listener of listeners) listener();
}

/** What commands and programs name this database by. */
export function targetOf(of: Session | null, host: string): string {
  if (of && (of.how === "process" || of.server.target.startsWith("esker"))) return of.server.target;
  return `esker://${host}`;
}

/** A command or a program with the database's name in it: `T` stands for that until here. */
export function named(way: string, text: string, target: string): string {
  if (way === "CLI")
    return text.replace(/(esker [a-z]+(?: [a-z]+)?) T(?= |$)/g, (_, command: string) => `${command} ${shell(target)}`);
  if (way === "Python") return `import esker\ndb = esker.open(${python(target)})\n${text}`;
  return text;
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useTarget = () => useSyncExternalStore(subscribe, () => targetOf(session, window.location.host));
