// The page Home: counts, rates, recent runs, changes and the health of the database.
import { useEffect, useMemo, useRef } from "react";
import { type Schemas, useGet } from "../../api/client";
import { useChanges } from "../../api/events";
import { href } from "../../app/router";
import { Chart } from "../../common/Chart";
import { CopyAs } from "../../common/CopyAs";
import { Await, Empty } from "../../common/Feedback";
import { ago, bytes, count, time } from "../../common/format";
import { TypeIcon } from "../../common/icons";
import { VertexLink } from "../../common/Vertex";
import { RunsTable } from "../runs/RunsTable";

type Home = Schemas["Home"];

/** Page Home; it has no parameters. */
export default function HomePage() {
  const home = useGet<Home>("/api/v1/home", {}, 5000);
  const { changes, live } = useChanges(home.data?.changes_known === true);
  const reloaded = useRef(0);
  // A change reloads counts and runs, at most once a second.
  useEffect(() => {
    if (changes.length > 0 && Date.now() - reloaded.current > 1000) {
      reloaded.current = Date.now();
      home.reload();
    }
  }, [changes, home.reload]);
  return (
    <>
      <div className="head">
        <h1>Home</h1>
        <span className="muted small">{live ? "live" : "updated every 5 s"}</span>
        <div className="grow" />
        <CopyAs formats={{ CLI: "esker stats T && esker log T", Python: "db.counts()", HTTP: "GET /api/v1/home" }} />
      </div>
      <Await request={home} rows={10}>
        {(data) => <HomeView data={data} changes={changes.length > 0 ? changes : data.changes} />}
      </Await>
    </>
  );
}

function HomeView({ data, changes }: { data: Home; changes: Home["changes"] }) {
  const total = Object.values(data.vertices).reduce((a, b) => a + b, 0);
  const edges = Object.values(data.edges).reduce((a, b) => a + b, 0);
  const types = Object.entries(data.vertices)
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1]);
  const most = types[0]?.[1] ?? 1;
  const times = useMemo(() => data.rate.operations.map((_, n) => data.rate.from + n * data.rate.step_s), [data.rate]);
  if (total === 0) {
    return (
      <div className="card">
        <Empty
          command={
            "esker run --target T -- ./program\nesker import darshan T /var/log/darshan\nesker import tree T /project\nesker put T file:/a size=7"
          }
        >
          <h2>This database is empty</h2>
          Record runs, import records of other programs, or insert vertices yourself. This page shows them as they are
          committed.
        </Empty>
        <Health lines={data.health} />
      </div>
    );
  }
  return (
    <div className="grid">
      <section className="card s4" aria-label="Counts">
        <h2>Contents</h2>
        <div className="row" style={{ gap: 14, marginBottom: 8, flexWrap: "nowrap" }}>
          <div>
            <div className="big">{count(total)}</div>
            <div className="muted small">vertices</div>
          </div>
          <div>
            <div className="big">{count(edges)}</div>
            <div className="muted small">edges</div>
          </div>
          <div>
            <div className="big">{bytes(data.bytes)}</div>
            <div className="muted small">on disk</div>
          </div>
        </div>
        <table>
          <tbody>
            {types.map(([name, n]) => (
              <tr key={name}>
                <td className="nowrap">
                  <TypeIcon type={name} /> <a href={href("search", { type: name })}>{name}</a>
                </td>
                <td className="num">{count(n)}</td>
                <td style={{ width: "40%" }}>
                  <div className="bar" aria-hidden="true">
                    <span style={{ width: `${Math.max(1, (100 * n) / most)}%` }} />
                  </div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        <p className="muted small" style={{ marginTop: 8 }}>
          Newest version {time(data.newest)} UTC
          {data.retained_since && <>; history since {time(data.retained_since)}</>}
        </p>
      </section>
      <section className="card s8" aria-label="Rates">
        <h2>Operations and calls a second, the last hour</h2>
        {times.length > 1 ? (
          <Chart
            label="Operations and calls a second over the last hour"
            times={times}
            series={[
              { name: "operations", colour: "t-data", values: data.rate.operations },
              { name: "calls", colour: "t-run", values: data.rate.calls },
            ]}
          />
        ) : (
          <p className="muted">The server started a few seconds ago; the first points appear soon.</p>
        )}
        <Health lines={data.health} />
      </section>
      <section className="card s8" aria-label="Recent runs">
        <div className="row between">
          <h2>Recent runs</h2>
          <a href={href("runs")}>All runs</a>
        </div>
        {data.runs.length > 0 ? (
          <RunsTable runs={data.runs} short />
        ) : (
          <p className="muted">No runs are recorded yet: esker run -- COMMAND records one.</p>
        )}
      </section>
      <section className="card s4" aria-label="Changes">
        <h2>Changes</h2>
        {changes.length > 0 ? (
          <table>
            <tbody>
              {changes.slice(0, 14).map((c) => (
                <tr key={`${c.version} ${c.id} ${c.edge?.type} ${c.edge?.to}`}>
                  <td className="nowrap muted small" title={c.version}>
                    {ago(c.version)}
                  </td>
                  <td>
                    <VertexLink id={c.id} />{" "}
                    {c.edge ? <span className="muted">{c.edge.type}</span> : <span className="muted">{c.change}</span>}{" "}
                    {c.edge && <VertexLink id={c.edge.to} />}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        ) : (
          <p className="muted">
            {data.changes_known
              ? "No changes since this page was first opened on this server. New changes appear here."
              : "In a cluster, each server has only its own changes. Runs and counts are updated every 5 s."}
          </p>
        )}
      </section>
    </div>
  );
}

function Health({ lines }: { lines: Home["health"] }) {
  return (
    <ul style={{ listStyle: "none", margin: "12px 0 0", padding: 0 }} aria-label="Health">
      {lines.map((line) => (
        <li key={line.name} style={{ padding: "3px 0" }}>
          <span className={`pill ${line.state}`}>{line.state}</span> <strong>{line.name}</strong> {line.text}
          {line.remedy && <span className="muted"> ({line.remedy})</span>}
        </li>
      ))}
    </ul>
  );
}
