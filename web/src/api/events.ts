// The change feed, as server-sent events. In a cluster there is no feed, and pages repeat their requests instead.
import { useEffect, useState } from "react";
import type { Schemas } from "./client";
import { useServer } from "./client";

/** A committed change of a vertex or an edge. */
export type Change = Schemas["Change"];
const CHANGES_MAX = 60;

/** Returns the latest changes since the page was opened, newest first. `live` tells whether the feed is open, `missed` whether it has gaps. */
export function useChanges(enabled = true): { changes: Change[]; live: boolean; missed: boolean } {
  const { generation } = useServer();
  const [changes, setChanges] = useState<Change[]>([]);
  const [live, setLive] = useState(false);
  const [missed, setMissed] = useState(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new generation opens the feed again
  useEffect(() => {
    if (!enabled || typeof EventSource === "undefined") return;
    const source = new EventSource("/api/v1/events");
    source.onopen = () => setLive(true);
    source.onerror = () => setLive(false);
    source.addEventListener("change", (message) => {
      const event = JSON.parse((message as MessageEvent<string>).data) as { changes: Change[] };
      setChanges((before) => [...event.changes, ...before].slice(0, CHANGES_MAX));
    });
    source.addEventListener("missed", () => setMissed(true));
    return () => source.close();
  }, [enabled, generation]);
  return { changes, live, missed };
}
