// The page of one run: command, settings, inputs, outputs, environment, and its parts.
import { useState } from "react";
import { type Schemas, useGet } from "../../api/client";
import { href, useRoute } from "../../app/router";
import { CopyAs } from "../../common/CopyAs";
import { Await } from "../../common/Feedback";
import { bytes, count, seconds, time, value } from "../../common/format";
import { Icon } from "../../common/icons";
import { python, shell, travel } from "../../common/quote";
import { type Column, Table } from "../../common/Table";
import { VertexLink } from "../../common/Vertex";
import { RunsTable, State } from "./RunsTable";

type Page = Schemas["RunPage"];
type Used = Page["reads"][number];

const COLUMNS: Column<Used>[] = [
  {
    name: "File",
    value: (u) => u.id,
    show: (u) => <VertexLink id={u.id} label={u.id.slice(u.id.indexOf(":") + 1)} />,
    width: "minmax(260px, 3fr)",
  },
  { name: "Size", value: (u) => u.size, show: (u) => (u.size === null ? "" : bytes(u.size)), number: true, width: "110px" },
  { name: "Time", value: (u) => u.version, show: (u) => time(u.version), width: "170px" },
  {
    name: "Properties",
    value: (u) => u.properties,
    show: (u) =>
      Object.entries(u.properties)
        .map(([k, v]) => `${k} ${value(v)}`)
        .join(" · "),
    width: "minmax(200px, 3fr)",
  },
];

/** Page of one run, by the parameter `id`. */
export default function RunPage() {
  const { params } = useRoute();
  const id = params.get("id") ?? "";
  const page = useGet<Page>(id ? "/api/v1/runs/one" : null, { id });
  if (!id)
    return (
      <p>
        Choose a run from <a href={href("runs")}>the list</a>.
      </p>
    );
  return (
    <>
      {!page.data && <h1 className="visually-hidden">{id}</h1>}
      <Await request={page}>{(data) => <RunView page={data} />}</Await>
    </>
  );
}

function RunView({ page }: { page: Page }) {
  const { run } = page;
  const [tab, setTab] = useState<"writes" | "reads">(page.writes.length > 0 ? "writes" : "reads");
  return (
    <>
      <div className="head">
        <h1>
          <Icon name="run" className="t-run" /> {run.name || run.id}
        </h1>
        <State run={run} />
        <div className="grow" />
        <a href={href("lineage", { id: run.id })}>Lineage</a>
        <a href={href("neighbourhood", { id: run.id })}>Neighbourhood</a>
        <CopyAs
          formats={{
            CLI: `esker get T ${shell(run.id)}`,
            Python: `db.get(${python(run.id)})`,
            Travel: `v(${travel(run.id)}).e("read", "write").v()`,
            HTTP: `GET /api/v1/runs/one?id=${encodeURIComponent(run.id)}`,
          }}
        />
      </div>
      <div className="grid">
        <section className="card s7" aria-label="Summary">
          {run.command && <pre className="note">{run.command}</pre>}
          <dl className="pairs">
            <dt>Run</dt>
            <dd>{run.id}</dd>
            <dt>User</dt>
            <dd>{run.user ? <a href={href("runs", { user: run.user })}>{run.user}</a> : "–"}</dd>
            <dt>Host</dt>
            <dd>{run.host ?? "–"}</dd>
            <dt>Began</dt>
            <dd>{time(run.begin) || "–"}</dd>
            <dt>Ended</dt>
            <dd>
              {time(run.end) || "–"} {run.seconds !== null && <span className="muted">({seconds(run.seconds)})</span>}
            </dd>
            {page.parents.map((p) => (
              <Pair key={p.id} name="Part of">
                <VertexLink id={p.id} label={p.name ?? p.id} />
              </Pair>
            ))}
            {page.executables.map((e) => (
              <Pair key={e.id} name="Program">
                <VertexLink id={e.id} label={e.id.slice(e.id.indexOf(":") + 1)} />
              </Pair>
            ))}
          </dl>
        </section>
        <section className="card s5" aria-label="Settings">
          <h2>Settings</h2>
          <Lines lines={page.settings} empty="No settings were recorded; esker run --param NAME=VALUE records them." />
          <Facts title="Source" facts={page.git} />
          <Facts title="Slurm" facts={page.slurm} />
        </section>
        <section className="card s12" aria-label="Files">
          <div className="row between">
            <div className="tabs" role="tablist" aria-label="Files">
              <button type="button" role="tab" aria-selected={tab === "writes"} onClick={() => setTab("writes")}>
                Outputs ({count(run.outputs)})
              </button>
              <button type="button" role="tab" aria-selected={tab === "reads"} onClick={() => setTab("reads")}>
                Inputs ({count(run.inputs)})
              </button>
            </div>
            {page.parts_max !== null && (
              <span className="muted small">Only the first {count(page.parts_max)} of each list are shown</span>
            )}
          </div>
          <div style={{ marginTop: 8 }}>
            <Table
              label={tab === "writes" ? "Outputs" : "Inputs"}
              columns={COLUMNS}
              rows={page[tab]}
              height={320}
              id={(u) => u.id}
            />
          </div>
        </section>
        {page.children.length > 0 && (
          <section className="card s12" aria-label="Parts">
            <h2>Parts</h2>
            <RunsTable runs={page.children} />
          </section>
        )}
        <section className="card s6" aria-label="Environment">
          <h2>Environment</h2>
          {page.modules.length > 0 && (
            <p>
              {page.modules.map((m) => (
                <span className="chip" key={m} style={{ marginRight: 4 }}>
                  {m}
                </span>
              ))}
            </p>
          )}
          <Lines lines={page.environment} empty="No environment variables were recorded." />
        </section>
        <section className="card s6" aria-label="Other attributes">
          <Facts title="Other attributes" facts={page.attributes} always />
        </section>
      </div>
    </>
  );
}

function Pair({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

/** Formats an attribute. Numbers have no separators, because they may be identifiers; a size has its value with a unit as well. */
function fact(name: string, v: unknown): string {
  if (typeof v !== "number") return value(v);
  return /(^|_)(size|bytes)($|_)/.test(name) && v >= 1024 ? `${v} (${bytes(v)})` : String(v);
}

/** Titled list of names and values; an empty one is omitted unless `always` is set. */
export function Facts({ title, facts, always }: { title: string; facts: Record<string, unknown>; always?: boolean }) {
  const all = Object.entries(facts);
  if (all.length === 0 && !always) return null;
  return (
    <>
      <h3 style={always ? { marginTop: 0 } : undefined}>{title}</h3>
      <dl className="pairs small">
        {all.map(([name, v]) => (
          <Pair key={name} name={name}>
            {fact(name, v)}
          </Pair>
        ))}
      </dl>
    </>
  );
}

function Lines({ lines, empty }: { lines: string[]; empty: string }) {
  if (lines.length === 0) return <p className="muted">{empty}</p>;
  return (
    <dl className="pairs small mono" style={{ maxHeight: 260, overflow: "auto" }}>
      {lines.map((line) => {
        const cut = line.indexOf("=");
        return (
          <Pair key={line} name={cut < 0 ? line : line.slice(0, cut)}>
            {cut < 0 ? "" : line.slice(cut + 1)}
          </Pair>
        );
      })}
    </dl>
  );
}
