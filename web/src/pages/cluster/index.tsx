// The page Cluster: state, sizes and rates of each server, its hubs, and the latest traversals.
import { useEffect, useMemo, useRef, useState } from "react";
import { type Schemas, useGet } from "../../api/client";
import { href } from "../../app/router";
import { Chart } from "../../common/Chart";
import { CopyAs } from "../../common/CopyAs";
import { Await } from "../../common/Feedback";
import { ago, bytes, count, time } from "../../common/format";
import { VertexLink } from "../../common/Vertex";
import { Profile } from "../travel/Profile";

type Cluster = Schemas["Cluster"];
/** Interval of requests in milliseconds. */
const INTERVAL_MS = 2000;
const POINTS_MAX = 300;

/** Page Cluster; it has no parameters. */
export default function ClusterPage() {
  const cluster = useGet<Cluster>("/api/v1/cluster", {}, INTERVAL_MS);
  return (
    <>
      <div className="head">
        <h1>Cluster</h1>
        {cluster.data && (
          <span className="muted">
            {cluster.data.kind === "cluster"
              ? `${cluster.data.name}: ${cluster.data.placement} with threshold ${count(cluster.data.threshold ?? 0)}, ${count(cluster.data.vnodes ?? 0)} virtual nodes`
              : "a single server"}
          </span>
        )}
        <div className="grow" />
        <CopyAs
          formats={{
            CLI: cluster.data?.kind === "cluster" ? `esker cluster status esker://${window.location.host}` : "esker stats T",
            HTTP: "GET /api/v1/cluster",
          }}
        />
      </div>
      <Await request={cluster}>{(data) => <ClusterView cluster={data} />}</Await>
    </>
  );
}

function ClusterView({ cluster }: { cluster: Cluster }) {
  const several = cluster.kind === "cluster";
  const down = cluster.servers.filter((s) => s.state !== "serving" || s.problem);
  return (
    <>
      {down.map((s) => (
        <div className="note bad" role="alert" key={s.server}>
          <strong>
            Server {s.server} ({s.address})
          </strong>{" "}
          {s.state === "joining" ? "waits for the other servers." : (s.problem ?? "does not answer.")} Its part of the data is
          unavailable until it responds.
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
                  {several && <th className="num">Calls sent</th>}
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
          <RateChart cluster={cluster} rate="calls_per_s" />
        </section>
        <section className="card s6" aria-label="Writes a second">
          <h2>Writes a second</h2>
          <RateChart cluster={cluster} rate="writes_per_s" />
        </section>
        {several && (
          <section className="card s6" aria-label="Balance">
            <h2>Distribution of edges</h2>
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

/** Chart of a rate with a line for each server, since this page was opened. */
function RateChart({ cluster, rate }: { cluster: Cluster; rate: "calls_per_s" | "writes_per_s" }) {
  const points = useRef<{ times: number[]; values: Map<number, (number | null)[]> }>({ times: [], values: new Map() });
  const [updates, setUpdates] = useState(0);
  useEffect(() => {
    const { times, values } = points.current;
    times.push(Date.now() / 1000);
    for (const s of cluster.servers) {
      const all = values.get(s.server) ?? new Array<null>(times.length - 1).fill(null);
      all.push(s[rate]);
      values.set(s.server, all);
    }
    if (times.length > POINTS_MAX) {
      times.shift();
      for (const all of values.values()) all.shift();
    }
    setUpdates((n) => n + 1);
  }, [cluster, rate]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the number of updates tells that there are new points
  const chart = useMemo(
    () => ({
      times: [...points.current.times],
      series: [...points.current.values].map(([server, values], n) => ({
        name: `server ${server}`,
        colour: COLOURS[n % COLOURS.length] ?? "t-data",
        values: [...values],
      })),
    }),
    [updates],
  );
  if (chart.times.length < 2) return <p className="muted">The first points appear after a few seconds.</p>;
  return (
    <Chart
      times={chart.times}
      series={chart.series}
      height={150}
      label={rate === "calls_per_s" ? "Calls a second" : "Writes a second"}
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

/** Profiles of the latest traversals that this server coordinated. */
function Traversals({ all, several }: { all: Cluster["traversals"]; several: boolean }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const traversal = all.find((t) => t.at === chosen) ?? all[0];
  if (!traversal) {
    return (
      <p className="muted">
        No traversals since this server was started. <a href={href("travel")}>Travel</a>, esker travel and programs run
        traversals{several && "; each server lists those that it coordinated"}.
      </p>
    );
  }
  return (
    <>
      <div className="row" style={{ marginBottom: 8 }}>
        <label>
          Traversal
          <select value={traversal.at} onChange={(e) => setChosen(e.target.value)} style={{ maxWidth: 640 }}>
            {all.map((t) => (
              <option key={t.at} value={t.at}>
                {time(t.at)} · {(t.micros / 1000).toFixed(1)} ms · {t.chain.slice(0, 120)}
              </option>
            ))}
          </select>
        </label>
        <a href={href("travel", { q: traversal.chain, view: "profile" })}>Open it in Travel</a>
        {!traversal.complete && <span className="pill warn">not complete</span>}
      </div>
      <Profile steps={traversal.profile} servers={traversal.servers} />
    </>
  );
}
