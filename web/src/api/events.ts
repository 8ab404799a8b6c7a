// Changes as they happen, where the server can tell them; else pages ask again now and then.
import { useEffect, useState } from "react";
import type { Schemas } from "./client";
import { useServer } from "./client";

export type Change = Schemas["Change"];
const KEPT = 60;

/** The latest changes since the page was opened, the newest first; `live` is false where nobody tells them. */
export function useChanges(enabled = true): { changes: Change[]; live: boolean; missed: boolean } {
  const { epoch } = useServer();
  const [changes, setChanges] = useState<Change[]>([]);
  const [live, setLive] = useState(false);
  const [missed, setMissed] = useState(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a server that is back is listened to anew
  useEffect(() => {
    if (!enabled || typeof EventSource === "undefined") return;
    const source = new EventSource("/api/v1/events");
    source.onopen = () => setLive(true);
    source.onerror = () => setLive(false);
    source.addEventListener("change", (event) => {
      const told = JSON.parse((event as MessageEvent<string>).data) as { changes: Change[] };
      setChanges((before) => [...told.changes, ...before].slice(0, KEPT));
    });
    source.addEventListener("missed", () => setMissed(true));
    return () => source.close();
  }, [enabled, epoch]);
  return { changes, live, missed };
}
