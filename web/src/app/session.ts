// The session of this browser, from which copied commands and programs get the target of the database.
import { useSyncExternalStore } from "react";
import type { Schemas } from "../api/client";
import { python, shell } from "../common/quote";

/** Principal, role and server of this browser's session. */
export type Session = Schemas["Session"];
let current: Session | null = null;
const listeners = new Set<() => void>();

/** Stores the session that the server returned. */
export function setSession(next: Session | null) {
  current = next;
  for (const listener of listeners) listener();
}

const PROOFS: Record<Session["how"], string> = {
  process: "User of this machine",
  key: "SSH key",
  token: "Token",
  certificate: "SSH certificate",
  local: "User of the server's machine",
  munge: "Munge",
  session: "Link of a command",
  server: "Host key of the servers",
  oidc: "Logged in by a provider",
};

/** Returns how the server knows the user of this session. */
export const proofOf = (session: Session): string => PROOFS[session.how];

/** Returns the target by which commands and programs open this database: a folder, or `esker://HOST:PORT`. */
export function targetOf(session: Session | null, host: string): string {
  if (session && (session.how === "process" || session.server.target.startsWith("esker"))) return session.server.target;
  return `esker://${host}`;
}

/** Puts the target into a copied text: it replaces `T` in commands, and opens the database in Python. */
export function withTarget(format: string, text: string, target: string): string {
  if (format === "CLI")
    return text.replace(/(esker [a-z]+(?: [a-z]+)?) T(?= |$)/g, (_, command: string) => `${command} ${shell(target)}`);
  if (format === "Python") return `import esker\ndb = esker.open(${python(target)})\n${text}`;
  return text;
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Returns the target of this database, and renders again when the session changes. */
export const useTarget = () => useSyncExternalStore(subscribe, () => targetOf(current, window.location.host));
