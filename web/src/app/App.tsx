// The house around the pages: what is on top, beside, and over them.
import { useEffect, useState } from "react";
import { type Schemas, useGet, useServer } from "../api/client";
import { Icon } from "../common/icons";
import { SearchBox } from "../common/SearchBox";
import { ErrorNote } from "../common/State";
import { target } from "../common/Vertex";
import { Boundary } from "./Boundary";
import { Keys } from "./Keys";
import { Palette } from "./Palette";
import { Later, type Load, loadAll } from "./pages";
import { go, href, useRoute } from "./router";
import { know } from "./session";
import { choose, useChoice } from "./theme";

export interface PageOf {
  page: string;
  title: string;
  icon: string;
  says: string;
}

export const PAGES: PageOf[] = [
  { page: "home", title: "Home", icon: "home", says: "What there is, and what happens" },
  { page: "search", title: "Search", icon: "search", says: "Find anything that has a name" },
  { page: "lineage", title: "Lineage", icon: "lineage", says: "Where data came from, and what became of it" },
  { page: "runs", title: "Runs", icon: "runs", says: "What ran, and how two runs differ" },
  { page: "space", title: "Space", icon: "space", says: "What takes how much" },
  { page: "tags", title: "Tags", icon: "tags", says: "How values spread; filters by clicking" },
  { page: "travel", title: "Travel", icon: "travel", says: "Traversals of the graph" },
  { page: "sparql", title: "SPARQL", icon: "sparql", says: "Queries and updates of RDF" },
  { page: "cluster", title: "Cluster", icon: "cluster", says: "The servers, and what they do" },
  { page: "sites", title: "Site caches", icon: "sites", says: "Tiers, hits, latency" },
];

const pages: Record<string, Load> = {
  home: () => import("../pages/home"),
  search: () => import("../pages/search"),
  lineage: () => import("../pages/lineage"),
  around: () => import("../pages/around"),
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

/** The page that an entry of the navigation stands for. */
const HOME_OF: Record<string, string> = { run: "runs", diff: "runs", around: "lineage" };

export function App() {
  const { page } = useRoute();
  const server = useServer();
  const session = useGet<Schemas["Session"]>("/api/v1/session");
  const [palette, setPalette] = useState(false);
  const [keys, setKeys] = useState(false);
  const load = pages[page];
  const shown = HOME_OF[page] ?? page;
  const title = PAGES.find((p) => p.page === shown)?.title;
  useEffect(() => loadAll(Object.values(pages)), []);
  useEffect(() => know(session.data), [session.data]);
  useEffect(() => {
    document.title = title ? `${title} · Esker` : "Esker";
  }, [title]);
  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      const writing =
        e.target instanceof HTMLElement && (e.target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName));
      if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") {
        e.preventDefault();
        setPalette(true);
      } else if (e.key === "?" && !writing && !e.ctrlKey) {
        setKeys(true);
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  return (
    <div className="shell">
      <button type="button" className="skip" onClick={() => document.getElementById("main")?.focus()}>
        To the page
      </button>
      {server.gone && (
        <div className="banner" role="alert">
          The server does not answer. Looking for it…
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
            else window.location.hash = target(item.name);
          }}
        />
        <div className="grow" />
        <button type="button" className="plain" onClick={() => setPalette(true)} title="All pages and commands">
          <kbd>Ctrl K</kbd>
        </button>
        <Theme />
        <button type="button" className="plain" onClick={() => setKeys(true)} aria-label="Keys" title="Keys">
          <kbd>?</kbd>
        </button>
      </header>
      <nav className="nav" aria-label="Pages">
        {PAGES.map((p) => (
          <a key={p.page} href={href(p.page)} aria-current={p.page === shown ? "page" : undefined} title={p.says}>
            <Icon name={p.icon} /> {p.title}
          </a>
        ))}
        <div className="foot">
          {session.data && (
            <>
              <div>
                {session.data.who}, may {session.data.role === "admin" ? "do all" : session.data.role}
              </div>
              <div title={session.data.server.target}>Esker {session.data.server.version}</div>
            </>
          )}
        </div>
      </nav>
      <main id="main" tabIndex={-1} className={`main${["lineage", "around"].includes(page) ? " full" : ""}`}>
        <Boundary key={page}>
          {server.unauthorised && page !== "enter" ? (
            <Stranger why={server.unauthorised} />
          ) : load ? (
            <Later load={load} />
          ) : (
            <ErrorNote error={new Error(`there is no page “${page}”; the list on the left has those that there are`)} />
          )}
        </Boundary>
      </main>
      {palette && <Palette onClose={() => setPalette(false)} />}
      {keys && <Keys onClose={() => setKeys(false)} />}
    </div>
  );
}

function Theme() {
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

/** Somebody whom the server does not know. */
function Stranger({ why }: { why: string }) {
  return (
    <div className="card" style={{ maxWidth: 720 }}>
      <h1>Who are you?</h1>
      <p style={{ marginTop: 8 }}>{why}</p>
      <p>
        Where you have a key of SSH that this server knows, run the following. It proves who you are and opens this page for
        you:
      </p>
      <pre className="note">esker console esker://{window.location.host || "HOST:PORT"}</pre>
      <p className="muted">
        On the server's own machine its owner needs nothing: open it as http://127.0.0.1:PORT. The owner lets others in with
        esker grant.
      </p>
    </div>
  );
}
