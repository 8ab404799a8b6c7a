// The first page: what there is, what happens, how the server is.
import { useEffect, useMemo, useRef } from "react";
import { type Schemas, useGet } from "../../api/client";
import { useChanges } from "../../api/events";
import { href } from "../../app/router";
import { Chart } from "../../common/Chart";
import { CopyAs } from "../../common/CopyAs";
import { ago, bytes, count, time } from "../../common/format";
import { TypeIcon } from "../../common/icons";
import { Answer, Empty } from "../../common/State";
import { VertexLink } from "../../common/Vertex";
import { RunsTable } from "../runs/RunsTable";

type Home = Schemas["Home"];

export default function HomePage() {
  const home = useGet<Home>("/api/v1/home", {}, 5000);
  const { changes, live } = useChanges(home.data?.changes_known === true);
  const seen = useRef(0);
  // What happens is shown at once, counts and runs with it.
  useEffect(() => {
    if (changes.length > 0 && Date.now() - seen.current > 1000) {
      seen.current = Date.now();
      home.again();
    }
  }, [changes, home.again]);
  return (
    <>
      <div className="head">
        <h1>Home</h1>
        <span className="muted small">{live ? "live" : "every 5 s"}</span>
        <div className="grow" />
        <CopyAs ways={{ CLI: "esker stats T && esker log T", Python: "db.counts()", HTTP: "GET /api/v1/home" }} />
      </div>
      <Answer of={home} rows={10}>
        {(data) => <Shown data={data} changes={changes.length > 0 ? changes : data.changes} />}
      </Answer>
    </>
  );
}

function Shown({ data, changes }: { data: Home; changes: Home["changes"] }) {
  const total = Object.values(data.vertices).reduce((a, b) => a + b, 0);
  const edges = Object.values(data.edges).reduce((a, b) => a + b, 0);
  const types = Object.entries(data.vertices)
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1]);
  const most = types[0]?.[1] ?? 1;
  const times = useMemo(() => data.rate.operations.map((_, n) => data.rate.from + n * data.rate.step_s), [data.rate]);
  const bad = data.health.filter((h) => h.state !== "ok");
  if (total === 0) {
    return (
      <div className="card">
        <Empty
          command={
            "esker run --target T -- ./program\nesker import darshan T /var/log/darshan\nesker import tree T /project\nesker put T file:/a size=7"
          }
        >
          <h2>This database is empty</h2>
          Record what runs, import what others recorded, or put something in yourself. This page shows it as it comes.
        </Empty>
        <Health lines={data.health} />
      </div>
    );
  }
  return (
    <div className="grid">
      <section className="card s4" aria-label="Counts">
        <h2>What there is</h2>
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
          Newest {time(data.newest)} UTC
          {data.retained_since && <>; versions since {time(data.retained_since)}</>}
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
          <p className="muted">The server has only just started: the first points come in some seconds.</p>
        )}
        <Health lines={bad.length > 0 ? data.health : data.health} />
      </section>
      <section className="card s8" aria-label="Recent runs">
        <div className="row between">
          <h2>Recent runs</h2>
          <a href={href("runs")}>All runs</a>
        </div>
        {data.runs.length > 0 ? (
          <RunsTable runs={data.runs} short />
        ) : (
          <p className="muted">Nothing has run yet: esker run -- COMMAND records it.</p>
        )}
      </section>
      <section className="card s4" aria-label="Changes">
        <h2>What changed</h2>
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
              ? "Nothing since this server was first asked. It is shown here as it happens."
              : "In a cluster each server knows its own changes only; runs and counts are asked for every 5 s."}
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
