// The page Tags: tags of objects, the distribution of their values, a filter by clicks, and tagging of all matching objects.
import { useEffect, useState } from "react";
import { post, refresh, type Schemas, useGet } from "../../api/client";
import { Dialog } from "../../app/Dialog";
import { change, href, useRoute } from "../../app/router";
import { CopyAs } from "../../common/CopyAs";
import { Await, Empty, ErrorNote, StoppedNote } from "../../common/Feedback";
import { bytes, count, short, value } from "../../common/format";
import { python, shell } from "../../common/quote";
import { and, between, equals, tagsOf } from "./filter";

/** A tag or predefined attribute of objects, with its counts. */
type Tag = {
  name: string;
  predefined: boolean;
  objects: number;
  distinct: number | null;
  indexed: boolean;
  bytes: number;
  index_bytes: number;
};
type Values = Schemas["TagValues"];

/** Page Tags; parameters `filter`, and `name`, the selected tag. */
export default function TagsPage() {
  const { params } = useRoute();
  const filter = params.get("filter") ?? "";
  const name = params.get("name");
  const tags = useGet<{ tags: Tag[] }>("/api/v1/tags");
  const [text, setText] = useState(filter);
  useEffect(() => setText(filter), [filter]);
  const add = (condition: string) => change({ filter: and(filter, condition) });
  return (
    <>
      <div className="head">
        <h1>Tags</h1>
        <form
          className="search"
          onSubmit={(e) => {
            e.preventDefault();
            change({ filter: text.trim() });
          }}
        >
          <input
            type="text"
            aria-label="Filter of objects"
            className="mono"
            style={{ paddingLeft: 10 }}
            placeholder="all objects; click values to narrow, or type: Conf = 1 AND step < 10"
            value={text}
            onChange={(e) => setText(e.target.value)}
          />
        </form>
        {filter && (
          <button type="button" onClick={() => change({ filter: null })}>
            Clear
          </button>
        )}
        <div className="grow" />
        <CopyAs
          formats={{
            CLI: `esker find T ${shell(filter)}`,
            Python: `db.find(${python(filter)})`,
            Travel: `v(type="Object").va(${JSON.stringify(filter || "true")})`,
            HTTP: `GET /api/v1/find?filter=${encodeURIComponent(filter)}`,
          }}
        />
      </div>
      <Await request={tags} rows={10}>
        {(data) =>
          data.tags.every((t) => t.objects === 0) ? (
            <Empty
              command={
                "esker object create T --name energy --owner 1001 --app vpic --step 7 --tag Conf=1\nesker object import T objects.csv --id name,app,owner,step"
              }
            >
              The database has no objects yet. An object has four ID attributes and any number of tags:
            </Empty>
          ) : (
            <div className="grid">
              <section className="card s4" aria-label="Names">
                <h2>Names</h2>
                <div style={{ maxHeight: 520, overflow: "auto" }}>
                  <table>
                    <thead>
                      <tr>
                        <th>Tag</th>
                        <th className="num">Objects</th>
                        {data.tags.some((t) => t.distinct !== null) && <th className="num">Values</th>}
                      </tr>
                    </thead>
                    <tbody>
                      {[...data.tags]
                        .filter((t) => t.objects > 0)
                        .sort((a, b) => Number(a.predefined) - Number(b.predefined) || b.objects - a.objects)
                        .map((t) => (
                          <tr key={t.name} className={t.name === name ? "selected" : undefined}>
                            <td>
                              <button type="button" className="link" onClick={() => change({ name: t.name })}>
                                {t.name}
                              </button>{" "}
                              <span className="muted small">
                                {t.predefined && "predefined"} {t.indexed && <span title={bytes(t.index_bytes)}>indexed</span>}
                              </span>
                            </td>
                            <td className="num">{count(t.objects)}</td>
                            {data.tags.some((other) => other.distinct !== null) && (
                              <td className="num">{t.distinct === null ? "" : count(t.distinct)}</td>
                            )}
                          </tr>
                        ))}
                    </tbody>
                  </table>
                </div>
              </section>
              <section className="card s8" aria-label="Values">
                {name ? (
                  <Distribution name={name} filter={filter} onAdd={add} />
                ) : (
                  <Empty>Select a tag to see the distribution of its values.</Empty>
                )}
              </section>
              <section className="card s12" aria-label="Matches">
                <Matches filter={filter} />
              </section>
            </div>
          )
        }
      </Await>
    </>
  );
}

function Distribution({ name, filter, onAdd }: { name: string; filter: string; onAdd: (condition: string) => void }) {
  const values = useGet<Values>("/api/v1/tags/values", { name, filter, limit: 40 });
  return (
    <>
      <h2>
        {name} {filter && <span className="muted small">where {filter}</span>}
      </h2>
      <Await request={values}>
        {({ spread, stopped, objects }) => {
          const most = Math.max(1, ...spread.top.map((t) => t.count));
          return (
            <>
              <StoppedNote stopped={stopped} unit="objects" />
              <p className="muted">
                {count(spread.count)} of {count(objects)} objects have this tag, with {spread.distinct_more && "at least "}
                {count(spread.distinct)} distinct values (
                {Object.entries(spread.kinds)
                  .map(([kind, n]) => `${count(n)} ${kind}`)
                  .join(", ")}
                ).
              </p>
              {spread.histogram && <Histogram name={name} histogram={spread.histogram} onAdd={onAdd} />}
              <div style={{ maxHeight: 320, overflow: "auto" }}>
                {spread.top.map((t) => (
                  <button
                    type="button"
                    key={JSON.stringify(t.value)}
                    className="plain row"
                    style={{ width: "100%", padding: "2px 6px", flexWrap: "nowrap" }}
                    title={`Only ${name} = ${value(t.value)}`}
                    onClick={() => onAdd(equals(name, t.value))}
                  >
                    <span className="clip" style={{ width: "36%", textAlign: "left" }}>
                      {value(t.value)}
                    </span>
                    <span className="bar" style={{ flex: 1 }} aria-hidden="true">
                      <span style={{ width: `${(100 * t.count) / most}%` }} />
                    </span>
                    <span style={{ width: 80, textAlign: "right" }}>{count(t.count)}</span>
                  </button>
                ))}
              </div>
            </>
          );
        }}
      </Await>
    </>
  );
}

function Histogram({
  name,
  histogram,
  onAdd,
}: {
  name: string;
  histogram: NonNullable<Values["spread"]["histogram"]>;
  onAdd: (condition: string) => void;
}) {
  const { from, to, bins } = histogram;
  const most = Math.max(1, ...bins);
  const boundary = (n: number) => from + ((to - from) * n) / bins.length;
  return (
    <div style={{ marginBottom: 12 }}>
      <div className="row" style={{ alignItems: "flex-end", gap: 1, height: 84, flexWrap: "nowrap" }}>
        {bins.map((n, i) => {
          const label = `${short(boundary(i))} to ${short(boundary(i + 1))}: ${histogram.exact ? "" : "about "}${count(n)}`;
          return (
            <button
              type="button"
              // biome-ignore lint/suspicious/noArrayIndexKey: bins have no other identity
              key={i}
              aria-label={label}
              title={label}
              disabled={n === 0}
              onClick={() => onAdd(between(name, boundary(i), boundary(i + 1)))}
              style={{
                flex: 1,
                padding: 0,
                minHeight: 0,
                borderRadius: "2px 2px 0 0",
                border: 0,
                height: `${Math.max(n > 0 ? 4 : 1, (100 * n) / most)}%`,
                background: n > 0 ? "var(--t-data)" : "var(--bg-3)",
              }}
            />
          );
        })}
      </div>
      <div className="row between small muted">
        <span>{short(from)}</span>
        <span>{short(to)}</span>
      </div>
    </div>
  );
}

function Matches({ filter }: { filter: string }) {
  const result = useGet<{ matches: number }>("/api/v1/find", { filter, count: true });
  const [open, setOpen] = useState(false);
  const matches = result.data?.matches;
  return (
    <Await request={result} rows={2}>
      {() => (
        <div className="row between">
          <span>
            {filter ? (
              <>
                <strong>{count(matches ?? 0)}</strong> objects match <code>{filter}</code>.
              </>
            ) : (
              <>
                <strong>{count(matches ?? 0)}</strong> objects in all.
              </>
            )}
          </span>
          <span className="row">
            {filter && <a href={href("search", { q: filter })}>Show them</a>}
            <button type="button" disabled={!filter || !matches} onClick={() => setOpen(true)}>
              Tag these objects…
            </button>
          </span>
          {open && <TagDialog filter={filter} matches={matches ?? 0} onClose={() => setOpen(false)} />}
        </div>
      )}
    </Await>
  );
}

/** Response to the tagging of all objects that match a filter. */
type TagResult = { matches: number; changed: number; refused: number; version: string };

function TagDialog({ filter, matches, onClose }: { filter: string; matches: number; onClose: () => void }) {
  const [set, setSet] = useState("");
  const [remove, setRemove] = useState("");
  const [result, setResult] = useState<TagResult | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const names = remove
    .split(",")
    .map((n) => n.trim())
    .filter(Boolean);
  const values = tagsOf(set);
  const empty = Object.keys(values).length === 0 && names.length === 0;
  return (
    <Dialog label="Tag the matching objects" onClose={onClose}>
      <h2>Tag {count(matches)} objects</h2>
      <p className="mono">{filter}</p>
      {result ? (
        <>
          <p>
            {count(result.changed)} of {count(result.matches)} objects were changed
            {result.refused > 0 && `; you have no permission to change ${count(result.refused)}`}.
          </p>
          <button type="button" className="primary" onClick={onClose}>
            Close
          </button>
        </>
      ) : (
        <form
          onSubmit={(e) => {
            e.preventDefault();
            setError(null);
            post<TagResult>("/api/v1/tag", { filter, set: values, remove: names })
              .then((t) => {
                setResult(t);
                refresh();
              })
              .catch(setError);
          }}
        >
          <p>
            <label>
              Set
              <input
                type="text"
                size={44}
                placeholder="campaign=spring, reviewed=true, step=7"
                value={set}
                onChange={(e) => setSet(e.target.value)}
              />
            </label>
          </p>
          <p>
            <label>
              Remove
              <input
                type="text"
                size={40}
                placeholder="draft, old"
                value={remove}
                onChange={(e) => setRemove(e.target.value)}
              />
            </label>
          </p>
          {!empty && (
            <pre className="note">
              {[
                ...Object.entries(values).map(([n, v]) => `${n} = ${value(v)}${typeof v === "string" ? " (text)" : ""}`),
                ...names.map((n) => `remove ${n}`),
              ].join("\n")}
            </pre>
          )}
          {error && <ErrorNote error={error} />}
          <div className="row" style={{ justifyContent: "flex-end" }}>
            <button type="button" onClick={onClose}>
              Cancel
            </button>
            <button type="submit" className="primary" disabled={empty}>
              Change {count(matches)} objects
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
