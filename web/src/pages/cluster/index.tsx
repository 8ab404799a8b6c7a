// The servers: what each has and does, now and over the last minutes.
import { useEffect, useMemo, useRef, useState } from "react";
import { type Schemas, useGet } from "../../api/client";
import { href } from "../../app/router";
import { Chart } from "../../common/Chart";
import { CopyAs } from "../../common/CopyAs";
import { ago, bytes, count, time } from "../../common/format";
import { Answer } from "../../common/State";
import { VertexLink } from "../../common/Vertex";
import { Profile } from "../travel/Profile";

type Cluster = Schemas["Cluster"];
const EVERY = 2000;
const POINTS = 300;

export default function ClusterPage() {
  const cluster = useGet<Cluster>("/api/v1/cluster", {}, EVERY);
  return (
    <>
      <div className="head">
        <h1>Cluster</h1>
        {cluster.data && (
          <span className="muted">
            {cluster.data.kind === "cluster"
              ? `${cluster.data.name}: ${cluster.data.placement} with threshold ${count(cluster.data.threshold ?? 0)}, ${count(cluster.data.vnodes ?? 0)} virtual nodes`
              : "one server that stands alone"}
          </span>
        )}
        <div className="grow" />
        <CopyAs
          ways={{
            CLI: cluster.data?.kind === "cluster" ? `esker cluster status esker://${window.location.host}` : "esker stats T",
            HTTP: "GET /api/v1/cluster",
          }}
        />
      </div>
      <Answer of={cluster}>{(data) => <Shown cluster={data} />}</Answer>
    </>
  );
}

function Shown({ cluster }: { cluster: Cluster }) {
  const several = cluster.kind === "cluster";
  const down = cluster.servers.filter((s) => s.state !== "serving" || s.trouble);
  return (
    <>
      {down.map((s) => (
        <div className="note bad" role="alert" key={s.server}>
          <strong>
            Server {s.server} ({s.address})
          </strong>{" "}
          {s.state === "joining" ? "waits for the others." : (s.trouble ?? "does not answer.")} Its part of the data cannot be
          asked for until it is back.
        </div>
      ))}
      <div className="grid">
        <section className="card s12" aria-label="Servers">
          <div className="tablewrap">
            <table>
              <thead>
                <tr>
                  <th className="num">Server</th>
                  <th>Address</th>
                  <th>State</th>
                  <th className="num">Vertices</th>
                  <th className="num">Edges</th>
                  <th className="num">Bytes</th>
                  {several && <th className="num">Vnodes</th>}
                  {several && <th className="num">Split vertices</th>}
                  <th className="num">Calls/s</th>
                  <th className="num">Writes/s</th>
                  {several && <th className="num">Asked others</th>}
                  {several && <th className="num">Unanswered</th>}
                  <th>Newest</th>
                </tr>
              </thead>
              <tbody>
                {cluster.servers.map((s) => (
                  <tr key={s.server}>
                    <td className="num">{s.server}</td>
                    <td className="mono nowrap">{s.address}</td>
                    <td>
                      <span className={`pill ${s.state === "serving" ? "ok" : s.state}`}>{s.state}</span>
                    </td>
                    <td className="num">{number(s.vertices)}</td>
                    <td className="num">{number(s.edges)}</td>
                    <td className="num" title={s.bytes === null ? "" : `${count(s.bytes)} bytes`}>
                      {s.bytes === null ? "–" : bytes(s.bytes)}
                    </td>
                    {several && <td className="num">{number(s.vnodes)}</td>}
                    {several && <td className="num">{number(s.split_vertices)}</td>}
                    <td className="num">{s.calls_per_s?.toFixed(1) ?? "–"}</td>
                    <td className="num">{s.writes_per_s?.toFixed(1) ?? "–"}</td>
                    {several && <td className="num">{number(s.asked)}</td>}
                    {several && <td className="num">{number(s.unanswered)}</td>}
                    <td className="nowrap" title={s.newest ?? ""}>
                      {ago(s.newest)}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
        <section className="card s6" aria-label="Calls a second">
          <h2>Calls a second</h2>
          <Live cluster={cluster} what="calls_per_s" />
        </section>
        <section className="card s6" aria-label="Writes a second">
          <h2>Writes a second</h2>
          <Live cluster={cluster} what="writes_per_s" />
        </section>
        {several && (
          <section className="card s6" aria-label="Balance">
            <h2>How data is spread</h2>
            <Balance cluster={cluster} />
          </section>
        )}
        {cluster.hubs.length > 0 && (
          <section className="card s6" aria-label="Hubs">
            <h2>Vertices with the most edges</h2>
            <table>
              <tbody>
                {cluster.hubs.map((hub) => (
                  <tr key={`${hub.id} ${hub.edge_type}`}>
                    <td>
                      <VertexLink id={hub.id} />
                    </td>
                    <td className="muted">{hub.edge_type}</td>
                    <td className="num">{count(hub.edges)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        )}
        <section className="card s12" aria-label="Traversals">
          <h2>The latest traversals, step by step</h2>
          <Traversals all={cluster.traversals} several={several} />
        </section>
      </div>
    </>
  );
}

function number(n: number | null): string {
  return n === null ? "–" : count(n);
}

const COLOURS = ["t-data", "t-run", "t-user", "t-exe", "t-dir", "t-object"];

/** A line for each server, since this page was opened. */
function Live({ cluster, what }: { cluster: Cluster; what: "calls_per_s" | "writes_per_s" }) {
  const kept = useRef<{ times: number[]; values: Map<number, (number | null)[]> }>({ times: [], values: new Map() });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const { times, values } = kept.current;
    times.push(Date.now() / 1000);
    for (const s of cluster.servers) {
      const all = values.get(s.server) ?? new Array<null>(times.length - 1).fill(null);
      all.push(s[what]);
      values.set(s.server, all);
    }
    if (times.length > POINTS) {
      times.shift();
      for (const all of values.values()) all.shift();
    }
    setTurn((t) => t + 1);
  }, [cluster, what]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a turn says that the kept points grew
  const shown = useMemo(
    () => ({
      times: [...kept.current.times],
      series: [...kept.current.values].map(([server, values], n) => ({
        name: `server ${server}`,
        colour: COLOURS[n % COLOURS.length] ?? "t-data",
        values: [...values],
      })),
    }),
    [turn],
  );
  if (shown.times.length < 2) return <p className="muted">The first points come in some seconds.</p>;
  return (
    <Chart
      times={shown.times}
      series={shown.series}
      height={150}
      label={what === "calls_per_s" ? "Calls a second" : "Writes a second"}
    />
  );
}

function Balance({ cluster }: { cluster: Cluster }) {
  const most = Math.max(1, ...cluster.servers.map((s) => s.edges ?? 0));
  return (
    <>
      {cluster.servers.map((s) => (
        <div key={s.server} className="row" style={{ padding: "3px 0" }}>
          <span style={{ width: 80 }}>server {s.server}</span>
          <div className="bar" style={{ flex: 1, height: 12 }} aria-hidden="true">
            <span style={{ width: `${(100 * (s.edges ?? 0)) / most}%` }} />
          </div>
          <span style={{ width: 110, textAlign: "right" }}>{number(s.edges)} edges</span>
        </div>
      ))}
    </>
  );
}

/** What each step of the latest traversals did, on which server: this server's own, whoever asked. */
function Traversals({ all, several }: { all: Cluster["traversals"]; several: boolean }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const one = all.find((t) => t.at === chosen) ?? all[0];
  if (!one) {
    return (
      <p className="muted">
        None since this server was started. They come from <a href={href("travel")}>Travel</a>, esker travel, and programs
        {several && "; each server tells those that it was asked for"}.
      </p>
    );
  }
  return (
    <>
      <div className="row" style={{ marginBottom: 8 }}>
        <label>
          Traversal
          <select value={one.at} onChange={(e) => setChosen(e.target.value)} style={{ maxWidth: 640 }}>
            {all.map((t) => (
              <option key={t.at} value={t.at}>
                {time(t.at)} · {(t.micros / 1000).toFixed(1)} ms · {t.chain.slice(0, 120)}
              </option>
            ))}
          </select>
        </label>
        <a href={href("travel", { q: one.chain, view: "profile" })}>Open it in Travel</a>
        {!one.complete && <span className="pill warn">not complete</span>}
      </div>
      <Profile steps={one.profile} servers={one.servers} />
    </>
  );
}
