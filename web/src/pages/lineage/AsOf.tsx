// How it was at another time: a slider over the versions at which something of the picture changed.
import { useEffect, useState } from "react";
import { change } from "../../app/router";
import { time } from "../../common/format";
import type { Picture } from "./index";

export function AsOf({ picture, asOf }: { picture: Picture; asOf: string }) {
  // Ticks of the widest picture that was seen stay: as of a time the later ones are not known any more.
  const [ticks, setTicks] = useState(picture.versions);
  useEffect(() => {
    setTicks((before) => {
      const all = new Map(before.map((t) => [t.version, t]));
      for (const tick of picture.versions) all.set(tick.version, tick);
      return [...all.values()].sort((a, b) => order(a.version, b.version));
    });
  }, [picture.versions]);
  const now = ticks.length;
  const found = asOf ? ticks.findIndex((t) => t.version === asOf) : now;
  const at = found < 0 ? ticks.filter((t) => order(t.version, asOf) <= 0).length - 1 : found;
  const [moving, setMoving] = useState<number | null>(null);
  const place = moving ?? Math.max(0, at);
  const tick = ticks[place];
  const settle = () => {
    if (moving === null) return;
    change({ as_of: ticks[moving]?.version ?? null });
    setMoving(null);
  };
  if (ticks.length === 0) return null;
  return (
    <div className="asof">
      <span className="small" style={{ whiteSpace: "nowrap", width: 250 }}>
        {tick ? (
          <>
            As of <strong>{time(tick.version)}</strong> <span className="muted">({tick.what})</span>
          </>
        ) : (
          <strong>As it is now</strong>
        )}
      </span>
      <div className="track">
        <input
          type="range"
          aria-label="As of"
          aria-valuetext={tick ? `${time(tick.version)}, ${tick.what}` : "now"}
          min={0}
          max={now}
          value={place}
          onChange={(e) => setMoving(Number(e.target.value))}
          onPointerUp={settle}
          onKeyUp={settle}
          onBlur={settle}
        />
        <div className="ticks" aria-hidden="true">
          {(ticks.length > 80 ? [] : ticks).map((t, n) => (
            <i key={t.version} style={{ left: `${(100 * n) / Math.max(1, now)}%` }} />
          ))}
        </div>
      </div>
      {picture.versions_cut && <span className="muted small">only the latest changes</span>}
      {asOf && (
        <button type="button" onClick={() => change({ as_of: null })}>
          Now
        </button>
      )}
    </div>
  );
}

/** Versions in their order: `TIME~COUNT`, where the count orders those of one millisecond. */
export function order(a: string, b: string): number {
  const [x = "", m = "0"] = a.split("~");
  const [y = "", n = "0"] = b.split("~");
  const [p, q] = [Date.parse(x), Date.parse(y)];
  return p === q || Number.isNaN(p) || Number.isNaN(q) ? Number(m) - Number(n) : p - q;
}
