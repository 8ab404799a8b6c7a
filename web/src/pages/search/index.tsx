// The page Search: vertices by words of their names, or objects by a filter; facets narrow the result.
import { useEffect, useState } from "react";
import { get, type Schemas, useGet } from "../../api/client";
import { change, href, useRoute } from "../../app/router";
import { CopyAs, type CopyFormats } from "../../common/CopyAs";
import { Await, Empty, StoppedNote } from "../../common/Feedback";
import { bytes, count, time, value } from "../../common/format";
import { TypeIcon } from "../../common/icons";
import { shell, travel } from "../../common/quote";
import { type Column, Table } from "../../common/Table";
import { vertexHref } from "../../common/Vertex";

type Results = Schemas["Search"];
type Item = Results["items"][number];

const COLUMNS: Column<Item>[] = [
  {
    name: "Name",
    value: (i) => i.id,
    show: (i) => (
      <a href={vertexHref(i.id)}>
        <TypeIcon type={i.type} /> {i.label ?? i.id}
      </a>
    ),
    width: "minmax(140px, 2fr)",
  },
  { name: "Type", value: (i) => i.type, width: "92px" },
  { name: "Key", value: (i) => i.id.slice(i.id.indexOf(":") + 1), width: "minmax(150px, 3fr)" },
  { name: "User", value: (i) => i.user, width: "66px" },
  { name: "Time", value: (i) => i.begin, show: (i) => time(i.begin), width: "158px" },
  { name: "Size", value: (i) => i.size, show: (i) => (i.size === null ? "" : bytes(i.size)), number: true, width: "90px" },
  {
    name: "Tags",
    value: (i) => i.tags,
    show: (i) =>
      Object.entries(i.tags)
        .map(([k, v]) => `${k}=${value(v)}`)
        .join(" "),
    width: "minmax(70px, 2fr)",
  },
];

/** Number of results in one page. */
const PAGE_SIZE = 500;

/** Page Search; parameters `q`, `type`, `ending` and `user`. */
export default function SearchPage() {
  const { params } = useRoute();
  const query = { q: params.get("q") ?? "", type: params.get("type"), ending: params.get("ending"), user: params.get("user") };
  const empty = !query.q && !query.type;
  const results = useGet<Results>(empty ? null : "/api/v1/search", { ...query, limit: PAGE_SIZE });
  const [text, setText] = useState(query.q);
  useEffect(() => setText(query.q), [query.q]);
  return (
    <>
      <div className="head">
        <h1>Search</h1>
        <form
          className="search"
          onSubmit={(e) => {
            e.preventDefault();
            change({ q: text.trim(), type: null, ending: null, user: null });
          }}
        >
          <input
            type="text"
            aria-label="Words or a filter"
            placeholder="Words of a name, or a filter: campaign = 'spring' AND step > 10"
            style={{ paddingLeft: 10 }}
            value={text}
            onChange={(e) => setText(e.target.value)}
          />
        </form>
        <div className="grow" />
        {!empty && <CopyAs formats={formats(query.q, query.type, results.data?.how)} />}
      </div>
      {empty ? (
        <Empty command={"vpic spring\nfile:/scratch/run7\ncampaign = 'spring' AND step BETWEEN 10 AND 20"}>
          Words find vertices whose names contain all of them. A filter finds objects by their attributes and tags. For example:
        </Empty>
      ) : (
        <Await request={results} rows={12}>
          {(data) => <ResultList results={data} query={query} />}
        </Await>
      )}
    </>
  );
}

function formats(q: string, type: string | null, how: string | undefined): CopyFormats {
  const http = `GET ${`/api/v1/search?q=${encodeURIComponent(q)}`}`;
  if (how === "filter") {
    return {
      CLI: `esker find T ${shell(q)}`,
      Python: `db.find(${JSON.stringify(q)})`,
      HTTP: `GET /api/v1/find?filter=${encodeURIComponent(q)}`,
    };
  }
  const chain = `v(type=${travel(type ?? "File")}).va(${travel(`key CONTAINS '${q.replaceAll("'", "''")}'`)})`;
  return { CLI: `esker travel T ${shell(chain)}`, Python: `db.travel(${JSON.stringify(chain)})`, Travel: chain, HTTP: http };
}

function ResultList({
  results,
  query,
}: {
  results: Results;
  query: { q: string; type: string | null; ending: string | null; user: string | null };
}) {
  const [more, setMore] = useState<{ items: Item[]; skip: number | null } | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new results begin with their first page
  useEffect(() => setMore(null), [results]);
  const items = more ? [...results.items, ...more.items] : results.items;
  const skip = more ? more.skip : results.skip;
  if (items.length === 0) {
    return (
      <Empty>
        No results{query.type ? ` of type ${query.type}` : ""}. Words match any part of a name, in upper or lower case; a filter
        needs an operator, as in step &gt; 10.
      </Empty>
    );
  }
  const names: Record<string, string> = { type: "Type", ending: "Extension", user: "User", app: "Application" };
  return (
    <div style={{ display: "grid", gridTemplateColumns: "190px 1fr", gap: 20 }}>
      <aside className="facets" aria-label="Facets">
        {Object.entries(results.facets)
          .filter(([, values]) => values.length > 0)
          .map(([name, values]) => {
            const selected = name in query ? query[name as keyof typeof query] : null;
            const usable = results.how === "words";
            return (
              <div key={name}>
                <h2 className="small">{names[name] ?? name}</h2>
                {values.slice(0, 12).map((v) =>
                  usable ? (
                    <button
                      key={v.value}
                      type="button"
                      className="chip"
                      aria-pressed={selected === v.value}
                      onClick={() => change({ [name]: selected === v.value ? null : v.value })}
                    >
                      <span className="clip">{v.value}</span> <span className="muted">{count(v.count)}</span>
                    </button>
                  ) : (
                    <button
                      key={v.value}
                      type="button"
                      className="chip"
                      onClick={() =>
                        change({ q: `(${query.q}) AND ${name === "user" ? `owner = ${v.value}` : `app = '${v.value}'`}` })
                      }
                    >
                      <span className="clip">{v.value}</span> <span className="muted">{count(v.count)}</span>
                    </button>
                  ),
                )}
              </div>
            );
          })}
      </aside>
      <div style={{ minWidth: 0 }}>
        <StoppedNote stopped={results.stopped} unit="names" />
        <Table
          label="Search results"
          columns={COLUMNS}
          rows={items}
          height={560}
          id={(i) => i.id}
          footer={
            <>
              of {count(results.matches)} · {(results.micros / 1000).toFixed(0)} ms{" "}
              {skip !== null && (
                <button
                  type="button"
                  className="link small"
                  onClick={async () => {
                    const page = await get<Results>("/api/v1/search", { ...query, skip, limit: PAGE_SIZE });
                    setMore((m) => ({ items: [...(m?.items ?? []), ...page.items], skip: page.skip }));
                  }}
                >
                  More
                </button>
              )}
              {results.how === "filter" && (
                <>
                  {" "}
                  · <a href={href("tags", { filter: query.q })}>tag these</a>
                </>
              )}
            </>
          }
        />
      </div>
    </div>
  );
}
