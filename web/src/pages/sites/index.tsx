// Site caches: what each tier keeps, how often it is right, and how long those above it take.
import { useEffect, useMemo, useRef, useState } from "react";
import { type Schemas, useGet } from "../../api/client";
import { Chart } from "../../common/Chart";
import { CopyAs } from "../../common/CopyAs";
import { bytes, count, seconds, value } from "../../common/format";
import { Answer, Empty } from "../../common/State";
import { Facts } from "../runs/Run";
import { ratios, type Status } from "./ratios";

type Tier = Schemas["Sites"]["tiers"][number];
const EVERY = 2000;
const POINTS = 300;

export default function SitesPage() {
  const sites = useGet<Schemas["Sites"]>("/api/v1/site", {}, EVERY);
  return (
    <>
      <div className="head">
        <h1>Site caches</h1>
        <div className="grow" />
        <CopyAs ways={{ CLI: "esker site status http://TIER:PORT", HTTP: "GET /api/v1/site" }} />
      </div>
      <Answer of={sites}>
        {(data) =>
          data.tiers.length === 0 ? (
            <Empty
              command={
                'esker site serve tier.toml\n\n# in the configuration of this server (esker serve T --config FILE):\nsites = ["http://tier:7420"]'
              }
            >
              This server's configuration names no tier. A tier keeps the metadata of remote file systems near, and fetches what
              will be asked for next:
            </Empty>
          ) : (
            <div className="grid">
              {data.tiers.map((tier) => (
                <section className="card s12" key={tier.url} aria-label={tier.url}>
                  <One tier={tier} />
                </section>
              ))}
            </div>
          )
        }
      </Answer>
    </>
  );
}

function One({ tier }: { tier: Tier }) {
  const status = tier.status as Status | null;
  return (
    <>
      <div className="row" style={{ marginBottom: 8 }}>
        <h2 style={{ margin: 0 }}>{status?.name || tier.url}</h2>
        <span className={`pill ${tier.state === "up" ? "ok" : "down"}`}>{tier.state}</span>
        <span className="muted small">{tier.url}</span>
      </div>
      {tier.trouble && (
        <div className="note bad" role="alert">
          {tier.trouble}
        </div>
      )}
      {status && <Figures status={status} />}
    </>
  );
}

function Figures({ status }: { status: Status }) {
  const all = ratios(status);
  const series = useSeries(status);
  const { cache, disk } = status;
  const known = new Set([
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
  const more = Object.fromEntries(Object.entries(status).filter(([k, v]) => !known.has(k) && typeof v !== "object"));
  return (
    <div className="grid">
      <div className="s4">
        {all.map((r) => (
          <div key={r.name} style={{ marginBottom: 8 }}>
            <div className="row between">
              <span title={r.says}>{r.name}</span>
              <strong>{r.part === null ? "–" : `${(100 * r.part).toFixed(1)} %`}</strong>
            </div>
            <div className="bar" aria-hidden="true">
              <span style={{ width: `${100 * (r.part ?? 0)}%` }} />
            </div>
            <div className="muted small">{r.says}</div>
          </div>
        ))}
      </div>
      <div className="s4">
        <dl className="pairs">
          <dt>Predictor</dt>
          <dd>{status.predictor}</dd>
          <dt>Up for</dt>
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
            {count(status.waiting)} wait, {count(status.running)} on their way
          </dd>
          <dt>Links</dt>
          <dd>{count(status.links)}</dd>
        </dl>
        <Facts title="More" facts={more} />
        {Object.entries(status)
          .filter(([k, v]) => !known.has(k) && typeof v === "object" && v !== null)
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
              { name: "asked", colour: "t-data", values: series.asked },
              { name: "hits", colour: "t-user", values: series.hits },
              { name: "prefetched", colour: "t-run", values: series.prefetched },
            ]}
          />
        ) : (
          <p className="muted">The first points come in some seconds.</p>
        )}
      </div>
    </div>
  );
}

interface Kept {
  times: number[];
  asked: number[];
  hits: number[];
  prefetched: number[];
}

/** What was asked, answered and fetched ahead, a second, since this page was opened. */
function useSeries(status: Status): Kept {
  const kept = useRef<{ last: { at: number; status: Status } | null } & Kept>({
    last: null,
    times: [],
    asked: [],
    hits: [],
    prefetched: [],
  });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const all = kept.current;
    const at = Date.now() / 1000;
    if (all.last) {
      const past = Math.max(0.5, at - all.last.at);
      const before = all.last.status;
      const rate = (now: number, then: number) => Math.max(0, now - then) / past;
      all.times.push(at);
      all.asked.push(rate(status.asked, before.asked));
      all.hits.push(rate(status.hits, before.hits));
      all.prefetched.push(rate(status.prefetched, before.prefetched));
      if (all.times.length > POINTS) for (const list of [all.times, all.asked, all.hits, all.prefetched]) list.shift();
    }
    all.last = { at, status };
    setTurn((t) => t + 1);
  }, [status]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a turn says that the kept points grew
  return useMemo(() => {
    const { times, asked, hits, prefetched } = kept.current;
    return { times: [...times], asked: [...asked], hits: [...hits], prefetched: [...prefetched] };
  }, [turn]);
}
