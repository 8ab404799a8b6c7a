// Everything that has a name, by its words, or objects by a filter; facets narrow it.
import { useEffect, useState } from "react";
import { get, type Schemas, useGet } from "../../api/client";
import { change, href, useRoute } from "../../app/router";
import { CopyAs, type Ways } from "../../common/CopyAs";
import { bytes, count, time, value } from "../../common/format";
import { TypeIcon } from "../../common/icons";
import { shell, travel } from "../../common/quote";
import { Answer, Empty, StoppedNote } from "../../common/State";
import { type Column, Table } from "../../common/Table";
import { target } from "../../common/Vertex";

type Found = Schemas["Search"];
type Item = Found["items"][number];

const COLUMNS: Column<Item>[] = [
  {
    name: "Name",
    value: (i) => i.id,
    show: (i) => (
      <a href={target(i.id)}>
        <TypeIcon type={i.type} /> {i.label ?? i.id}
      </a>
    ),
    width: "minmax(140px, 2fr)",
  },
  { name: "Type", value: (i) => i.type, width: "92px" },
  { name: "Where", value: (i) => i.id.slice(i.id.indexOf(":") + 1), width: "minmax(150px, 3fr)" },
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

const PAGE = 500;

export default function SearchPage() {
  const { params } = useRoute();
  const asked = { q: params.get("q") ?? "", type: params.get("type"), ending: params.get("ending"), user: params.get("user") };
  const nothing = !asked.q && !asked.type;
  const found = useGet<Found>(nothing ? null : "/api/v1/search", { ...asked, limit: PAGE });
  const [text, setText] = useState(asked.q);
  useEffect(() => setText(asked.q), [asked.q]);
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
        {!nothing && <CopyAs ways={ways(asked.q, asked.type, found.data?.how)} />}
      </div>
      {nothing ? (
        <Empty command={"vpic spring\nfile:/scratch/run7\ncampaign = 'spring' AND step BETWEEN 10 AND 20"}>
          Words find vertices whose names contain all of them. A filter finds objects by their attributes and tags. For example:
        </Empty>
      ) : (
        <Answer of={found} rows={12}>
          {(data) => <Shown found={data} asked={asked} />}
        </Answer>
      )}
    </>
  );
}

function ways(q: string, type: string | null, how: string | undefined): Ways {
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

function Shown({
  found,
  asked,
}: {
  found: Found;
  asked: { q: string; type: string | null; ending: string | null; user: string | null };
}) {
  const [more, setMore] = useState<{ items: Item[]; skip: number | null } | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another answer begins anew
  useEffect(() => setMore(null), [found]);
  const items = more ? [...found.items, ...more.items] : found.items;
  const skip = more ? more.skip : found.skip;
  if (items.length === 0) {
    return (
      <Empty>
        Nothing is called so{asked.type ? ` among ${asked.type}` : ""}. Words are looked for in whole names, in any case; a
        filter needs an operator, as in step &gt; 10.
      </Empty>
    );
  }
  const names: Record<string, string> = { type: "Type", ending: "Ending", user: "User", app: "Application" };
  return (
    <div style={{ display: "grid", gridTemplateColumns: "190px 1fr", gap: 20 }}>
      <aside className="facets" aria-label="Narrow it">
        {Object.entries(found.facets)
          .filter(([, values]) => values.length > 0)
          .map(([name, values]) => {
            const chosen = name in asked ? asked[name as keyof typeof asked] : null;
            const usable = found.how === "words";
            return (
              <div key={name}>
                <h2 style={{ fontSize: 13 }}>{names[name] ?? name}</h2>
                {values.slice(0, 12).map((v) =>
                  usable ? (
                    <button
                      key={v.value}
                      type="button"
                      className="chip"
                      aria-pressed={chosen === v.value}
                      onClick={() => change({ [name]: chosen === v.value ? null : v.value })}
                    >
                      <span className="clip">{v.value}</span> <span className="muted">{count(v.count)}</span>
                    </button>
                  ) : (
                    <button
                      key={v.value}
                      type="button"
                      className="chip"
                      onClick={() =>
                        change({ q: `(${asked.q}) AND ${name === "user" ? `owner = ${v.value}` : `app = '${v.value}'`}` })
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
        <StoppedNote stopped={found.stopped} what="names" />
        <Table
          label="Found"
          columns={COLUMNS}
          rows={items}
          height={560}
          id={(i) => i.id}
          more={
            <>
              of {count(found.matches)} · {(found.micros / 1000).toFixed(0)} ms{" "}
              {skip !== null && (
                <button
                  type="button"
                  className="link small"
                  onClick={async () => {
                    const page = await get<Found>("/api/v1/search", { ...asked, skip, limit: PAGE });
                    setMore((m) => ({ items: [...(m?.items ?? []), ...page.items], skip: page.skip }));
                  }}
                >
                  More
                </button>
              )}
              {found.how === "filter" && (
                <>
                  {" "}
                  · <a href={href("tags", { filter: asked.q })}>tag these</a>
                </>
              )}
            </>
          }
        />
      </div>
    </div>
  );
}
