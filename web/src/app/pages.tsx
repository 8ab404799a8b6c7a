// Pages are parts of their own, fetched when they are first shown, and all of them once nothing else is to be done: a server that goes away
// takes no page with it.
import { type ComponentType, useEffect, useState } from "react";
import { useServer } from "../api/client";
import { Skeleton } from "../common/State";

export type Load = () => Promise<{ default: ComponentType }>;

const known = new Map<Load, ComponentType>();

function fetched(load: Load): Promise<ComponentType> {
  return load().then((part) => {
    known.set(load, part.default);
    return part.default;
  });
}

/** A page that is fetched when it is needed; what could not be fetched is tried again once the server is back. */
export function Later({ load }: { load: Load }) {
  const { epoch } = useServer();
  const [Page, setPage] = useState<ComponentType | null>(() => known.get(load) ?? null);
  const [error, setError] = useState<Error | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a server that is back is asked again
  useEffect(() => {
    if (Page) return;
    let there = true;
    setError(null);
    fetched(load)
      .then((part) => there && setPage(() => part))
      .catch((e: Error) => there && setError(e));
    return () => {
      there = false;
    };
  }, [Page, load, epoch]);
  if (Page) return <Page />;
  if (!error) return <Skeleton rows={8} />;
  return (
    <>
      <h1>This page is not here yet</h1>
      <div className="note bad" role="alert">
        The server could not be asked for it. It comes once the server is back, or by loading everything anew.
        <div className="row" style={{ marginTop: 8 }}>
          <button type="button" onClick={() => window.location.reload()}>
            Load everything anew
          </button>
        </div>
      </div>
    </>
  );
}

/** Fetches all pages, one after the other, when the browser has nothing else to do. */
export function loadAll(loads: Iterable<Load>) {
  const rest = [...loads];
  const next = () => {
    const load = rest.shift();
    if (!load) return;
    fetched(load)
      .catch(() => null)
      .finally(() => window.setTimeout(next, 50));
  };
  const timer = window.setTimeout(next, 1500);
  return () => window.clearTimeout(timer);
}
