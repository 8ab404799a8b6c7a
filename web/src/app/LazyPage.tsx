// Lazy loading: each page is a separate script, loaded when it is first shown. All others are loaded in the background, so that every page can
// be opened while the server is unreachable.
import { type ComponentType, useEffect, useState } from "react";
import { useServer } from "../api/client";
import { Skeleton } from "../common/Feedback";

/** Function that imports the script of a page. */
export type LoadPage = () => Promise<{ default: ComponentType }>;

const loaded = new Map<LoadPage, ComponentType>();

function loadOnce(load: LoadPage): Promise<ComponentType> {
  return load().then((module) => {
    loaded.set(load, module.default);
    return module.default;
  });
}

/** A page that is loaded when it is shown; if loading fails, it is tried again once the server responds. */
export function LazyPage({ load }: { load: LoadPage }) {
  const { generation } = useServer();
  const [Page, setPage] = useState<ComponentType | null>(() => loaded.get(load) ?? null);
  const [error, setError] = useState<Error | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new generation loads the page again
  useEffect(() => {
    if (Page) return;
    let mounted = true;
    setError(null);
    loadOnce(load)
      .then((page) => mounted && setPage(() => page))
      .catch((e: Error) => mounted && setError(e));
    return () => {
      mounted = false;
    };
  }, [Page, load, generation]);
  if (Page) return <Page />;
  if (!error) return <Skeleton rows={8} />;
  return (
    <>
      <h1>This page is not loaded yet</h1>
      <div className="note bad" role="alert">
        The server did not send this page. The page loads once the server responds, or after you reload the console.
        <div className="row" style={{ marginTop: 8 }}>
          <button type="button" onClick={() => window.location.reload()}>
            Reload the console
          </button>
        </div>
      </div>
    </>
  );
}

/** Loads all pages in the background, one after the other; returns a function that cancels the start. */
export function loadAll(loads: Iterable<LoadPage>) {
  const rest = [...loads];
  const next = () => {
    const load = rest.shift();
    if (!load) return;
    loadOnce(load)
      .catch(() => null)
      .finally(() => window.setTimeout(next, 50));
  };
  const timer = window.setTimeout(next, 1500);
  return () => window.clearTimeout(timer);
}
