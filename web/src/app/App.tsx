// The frame of every page: banner, search box, navigation, dialogs and the page of the current route.
import { useEffect, useState } from "react";
import { type Schemas, useGet, useServer } from "../api/client";
import { ErrorNote } from "../common/Feedback";
import { Icon } from "../common/icons";
import { SearchBox } from "../common/SearchBox";
import { vertexHref } from "../common/Vertex";
import { ErrorBoundary } from "./ErrorBoundary";
import { Keys } from "./Keys";
import { LazyPage, type LoadPage, loadAll } from "./LazyPage";
import { Palette } from "./Palette";
import { go, href, useRoute } from "./router";
import { proofOf, setSession } from "./session";
import { choose, useChoice } from "./theme";

/** An entry of the navigation: the name of its page in addresses, its title, icon and description. */
export interface PageEntry {
  page: string;
  title: string;
  icon: string;
  description: string;
}

/** Pages in the order of the navigation. */
export const PAGES: PageEntry[] = [
  { page: "home", title: "Home", icon: "home", description: "Contents, changes and health of the database" },
  { page: "search", title: "Search", icon: "search", description: "Vertices by name, objects by filter" },
  {
    page: "lineage",
    title: "Lineage",
    icon: "lineage",
    description: "Inputs and runs behind a vertex, and data derived from it",
  },
  { page: "runs", title: "Runs", icon: "runs", description: "Recorded runs, and the differences of two runs" },
  { page: "space", title: "Space", icon: "space", description: "Bytes and files by directory, user, project and age" },
  { page: "tags", title: "Tags", icon: "tags", description: "Distribution of values; filters by clicking" },
  { page: "travel", title: "Travel", icon: "travel", description: "Traversals of the graph" },
  { page: "sparql", title: "SPARQL", icon: "sparql", description: "Queries and updates of RDF data" },
  { page: "cluster", title: "Cluster", icon: "cluster", description: "State and load of the servers" },
  { page: "sites", title: "Site caches", icon: "sites", description: "Hits, prefetches and queues of the tiers" },
];

const pages: Record<string, LoadPage> = {
  home: () => import("../pages/home"),
  search: () => import("../pages/search"),
  lineage: () => import("../pages/lineage"),
  neighbourhood: () => import("../pages/neighbourhood"),
  runs: () => import("../pages/runs"),
  run: () => import("../pages/runs/Run"),
  diff: () => import("../pages/runs/Diff"),
  space: () => import("../pages/space"),
  tags: () => import("../pages/tags"),
  travel: () => import("../pages/travel"),
  sparql: () => import("../pages/sparql"),
  cluster: () => import("../pages/cluster"),
  sites: () => import("../pages/sites"),
  enter: () => import("../pages/enter"),
};

/** Pages without an entry of their own, and the entry of the navigation that is marked for them. */
const ENTRY_OF: Record<string, string> = { run: "runs", diff: "runs", neighbourhood: "lineage" };

/** The complete console: frame, current page and dialogs. */
export function App() {
  const { page } = useRoute();
  const server = useServer();
  const session = useGet<Schemas["Session"]>("/api/v1/session");
  const [palette, setPalette] = useState(false);
  const [keys, setKeys] = useState(false);
  const load = pages[page];
  const entry = ENTRY_OF[page] ?? page;
  const title = PAGES.find((p) => p.page === entry)?.title;
  useEffect(() => loadAll(Object.values(pages)), []);
  useEffect(() => setSession(session.data), [session.data]);
  useEffect(() => {
    document.title = title ? `${title} · Esker` : "Esker";
  }, [title]);
  useEffect(() => {
    const onKeyDown = (e: KeyboardEvent) => {
      const typing =
        e.target instanceof HTMLElement && (e.target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName));
      if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") {
        e.preventDefault();
        setPalette(true);
      } else if (e.key === "?" && !typing && !e.ctrlKey) {
        setKeys(true);
      }
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
  return (
    <div className="shell">
      <button type="button" className="skip" onClick={() => document.getElementById("main")?.focus()}>
        To the page
      </button>
      {server.unreachable && (
        <div className="banner" role="alert">
          The server does not answer. Trying again…
        </div>
      )}
      <header className="top">
        <a className="brand" href={href("home")}>
          <img src="./favicon.svg" alt="" width={24} height={24} /> Esker
        </a>
        <SearchBox
          label="Search everything"
          placeholder="Path, user, run, tag, or a filter such as size > 1GiB"
          hotkey
          onSearch={(q) => go("search", { q })}
          onPick={(item) => {
            if (item.kind === "tag") go("tags", { name: item.name });
            else if (item.kind === "type") go("search", { type: item.name });
            else window.location.hash = vertexHref(item.name);
          }}
        />
        <div className="grow" />
        <button type="button" className="plain" onClick={() => setPalette(true)} title="All pages and commands">
          <kbd>Ctrl K</kbd>
        </button>
        <ThemeSwitch />
        <button type="button" className="plain" onClick={() => setKeys(true)} aria-label="Keys" title="Keys">
          <kbd>?</kbd>
        </button>
      </header>
      <nav className="nav" aria-label="Pages">
        {PAGES.map((p) => (
          <a key={p.page} href={href(p.page)} aria-current={p.page === entry ? "page" : undefined} title={p.description}>
            <Icon name={p.icon} /> {p.title}
          </a>
        ))}
        <div className="foot">
          {session.data && (
            <>
              <div>
                {session.data.who}, role {session.data.role}
              </div>
              <div>
                {proofOf(session.data)}
                {session.data.how === "oidc" && (
                  <>
                    {" · "}
                    <button type="button" className="link" onClick={logOut}>
                      Log out
                    </button>
                  </>
                )}
              </div>
              <div title={session.data.server.target}>Esker {session.data.server.version}</div>
            </>
          )}
        </div>
      </nav>
      <main id="main" tabIndex={-1} className={`main${["lineage", "neighbourhood"].includes(page) ? " full" : ""}`}>
        <ErrorBoundary key={page}>
          {server.unauthorised && page !== "enter" ? (
            <NoCredential message={server.unauthorised} />
          ) : load ? (
            <LazyPage load={load} />
          ) : (
            <ErrorNote error={new Error(`there is no page “${page}”; the navigation on the left lists all pages`)} />
          )}
        </ErrorBoundary>
      </main>
      {palette && <Palette onClose={() => setPalette(false)} />}
      {keys && <Keys onClose={() => setKeys(false)} />}
    </div>
  );
}

function logOut() {
  fetch("/api/v1/session", { method: "DELETE" }).finally(() => window.location.reload());
}

function ThemeSwitch() {
  const choice = useChoice();
  const next = { system: "light", light: "dark", dark: "system" } as const;
  return (
    <button
      type="button"
      className="plain"
      onClick={() => choose(next[choice])}
      aria-label={`Colours: ${choice}. Change to ${next[choice]}`}
      title={`Colours: ${choice}`}
    >
      <Icon name="theme" />
    </button>
  );
}

/** Instructions for a browser that has no valid credential. `message` is the server's error message. */
function NoCredential({ message }: { message: string }) {
  const provider = useGet<Schemas["OidcProvider"]>("/api/v1/oidc").data;
  const login = provider?.login;
  return (
    <div className="card" style={{ maxWidth: 720 }}>
      <h1>No valid credential</h1>
      <p style={{ marginTop: 8 }}>{message}</p>
      {login && (
        <p>
          <button type="button" className="primary" onClick={() => window.location.assign(login)}>
            Log in with {provider.name}
          </button>
        </p>
      )}
      <p>
        If the server has granted a role to your SSH key, run this command. It proves the key and opens the console in your
        browser:
      </p>
      <pre className="note">esker console esker://{window.location.host || "HOST:PORT"}</pre>
      <p className="muted">
        On the server's own machine, the owner of the database needs no credential: open http://127.0.0.1:PORT. The owner gives
        roles to other users with esker grant.
      </p>
    </div>
  );
}
