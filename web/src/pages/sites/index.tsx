// The page Site caches: hits, prefetches, sizes and queues of each tier.
import { useEffect, useMemo, useRef, useState } from "react";
import { type Schemas, useGet } from "../../api/client";
import { Chart } from "../../common/Chart";
import { CopyAs } from "../../common/CopyAs";
import { Await, Empty } from "../../common/Feedback";
import { bytes, count, seconds, value } from "../../common/format";
import { Facts } from "../runs/Run";
import { ratios, type Status } from "./ratios";

type Tier = Schemas["Sites"]["tiers"][number];
/** Interval of requests in milliseconds. */
const INTERVAL_MS = 2000;
const POINTS_MAX = 300;

/** Page Site caches; it has no parameters. */
export default function SitesPage() {
  const sites = useGet<Schemas["Sites"]>("/api/v1/site", {}, INTERVAL_MS);
  return (
    <>
      <div className="head">
        <h1>Site caches</h1>
        <div className="grow" />
        <CopyAs formats={{ CLI: "esker site status http://TIER:PORT", HTTP: "GET /api/v1/site" }} />
      </div>
      <Await request={sites}>
        {(data) =>
          data.tiers.length === 0 ? (
            <Empty
              command={
                'esker site serve tier.toml\n\n# in the configuration of this server (esker serve T --config FILE):\nsites = ["http://tier:7420"]'
              }
            >
              This server's configuration names no tier. A tier caches the metadata of remote file systems, and prefetches what
              clients will probably request next:
            </Empty>
          ) : (
            <div className="grid">
              {data.tiers.map((tier) => (
                <section className="card s12" key={tier.url} aria-label={tier.url}>
                  <TierView tier={tier} />
                </section>
              ))}
            </div>
          )
        }
      </Await>
    </>
  );
}

function TierView({ tier }: { tier: Tier }) {
  const status = tier.status as Status | null;
  return (
    <>
      <div className="row" style={{ marginBottom: 8 }}>
        <h2 style={{ margin: 0 }}>{status?.name || tier.url}</h2>
        <span className={`pill ${tier.state === "up" ? "ok" : "down"}`}>{tier.state}</span>
        <span className="muted small">{tier.url}</span>
      </div>
      {tier.problem && (
        <div className="note bad" role="alert">
          {tier.problem}
        </div>
      )}
      {status && <Figures status={status} />}
    </>
  );
}

function Figures({ status }: { status: Status }) {
  const shares = ratios(status);
  const series = useRates(status);
  const { cache, disk } = status;
  const displayed = new Set([
    "name",
    "url",
    "up_seconds",
    "predictor",
    "cache",
    "disk",
    "hit_rate",
    "prefetches_right",
    "waiting",
    "running",
    "links",
  ]);
  const more = Object.fromEntries(Object.entries(status).filter(([k, v]) => !displayed.has(k) && typeof v !== "object"));
  return (
    <div className="grid">
      <div className="s4">
        {shares.map((r) => (
          <div key={r.name} style={{ marginBottom: 8 }}>
            <div className="row between">
              <span title={r.description}>{r.name}</span>
              <strong>{r.part === null ? "–" : `${(100 * r.part).toFixed(1)} %`}</strong>
            </div>
            <div className="bar" aria-hidden="true">
              <span style={{ width: `${100 * (r.part ?? 0)}%` }} />
            </div>
            <div className="muted small">{r.description}</div>
          </div>
        ))}
      </div>
      <div className="s4">
        <dl className="pairs">
          <dt>Predictor</dt>
          <dd>{status.predictor}</dd>
          <dt>Uptime</dt>
          <dd>{seconds(status.up_seconds)}</dd>
          <dt>In memory</dt>
          <dd>
            {bytes(cache.bytes)} of {bytes(cache.bytes_max)}, {count(cache.paths)} paths
          </dd>
          {disk && (
            <>
              <dt>On disk</dt>
              <dd>
                {bytes(disk.bytes)} of {bytes(disk.bytes_max)}, {count(disk.paths)} paths
              </dd>
            </>
          )}
          <dt>Queue</dt>
          <dd>
            {count(status.waiting)} waiting, {count(status.running)} in flight
          </dd>
          <dt>Links</dt>
          <dd>{count(status.links)}</dd>
        </dl>
        <Facts title="More" facts={more} />
        {Object.entries(status)
          .filter(([k, v]) => !displayed.has(k) && typeof v === "object" && v !== null)
          .map(([k, v]) => (
            <details key={k} className="small">
              <summary>{k}</summary>
              <pre>{value(JSON.stringify(v, null, 1))}</pre>
            </details>
          ))}
      </div>
      <div className="s4">
        <h3 style={{ marginTop: 0 }}>Requests a second</h3>
        {series.times.length > 1 ? (
          <Chart
            label="Requests a second"
            height={150}
            times={series.times}
            series={[
              { name: "requests", colour: "t-data", values: series.requests },
              { name: "hits", colour: "t-user", values: series.hits },
              { name: "prefetched", colour: "t-run", values: series.prefetched },
            ]}
          />
        ) : (
          <p className="muted">The first points appear after a few seconds.</p>
        )}
      </div>
    </div>
  );
}

/** Rates a second at each time. */
interface Rates {
  times: number[];
  requests: number[];
  hits: number[];
  prefetched: number[];
}

/** Returns requests, hits and prefetches a second since this page was opened. */
function useRates(status: Status): Rates {
  const points = useRef<{ last: { at: number; status: Status } | null } & Rates>({
    last: null,
    times: [],
    requests: [],
    hits: [],
    prefetched: [],
  });
  const [updates, setUpdates] = useState(0);
  useEffect(() => {
    const all = points.current;
    const at = Date.now() / 1000;
    if (all.last) {
      const elapsed = Math.max(0.5, at - all.last.at);
      const before = all.last.status;
      const rate = (now: number, then: number) => Math.max(0, now - then) / elapsed;
      all.times.push(at);
      all.requests.push(rate(status.asked, before.asked));
      all.hits.push(rate(status.hits, before.hits));
      all.prefetched.push(rate(status.prefetched, before.prefetched));
      if (all.times.length > POINTS_MAX) for (const list of [all.times, all.requests, all.hits, all.prefetched]) list.shift();
    }
    all.last = { at, status };
    setUpdates((n) => n + 1);
  }, [status]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the number of updates tells that there are new points
  return useMemo(() => {
    const { times, requests, hits, prefetched } = points.current;
    return { times: [...times], requests: [...requests], hits: [...hits], prefetched: [...prefetched] };
  }, [updates]);
}
