// The slider of the page Lineage: it selects one of the versions at which the picture changed.
import { useEffect, useState } from "react";
import { change } from "../../app/router";
import { time } from "../../common/format";
import type { Picture } from "./index";

/** Slider over versions; `asOf` is the selected version, or empty for the current state. */
export function AsOf({ picture, asOf }: { picture: Picture; asOf: string }) {
  // Versions of earlier responses stay on the slider, because a picture as of a version does not list later versions.
  const [ticks, setTicks] = useState(picture.versions);
  useEffect(() => {
    setTicks((before) => {
      const merged = new Map(before.map((t) => [t.version, t]));
      for (const tick of picture.versions) merged.set(tick.version, tick);
      return [...merged.values()].sort((a, b) => compareVersions(a.version, b.version));
    });
  }, [picture.versions]);
  const last = ticks.length;
  const index = asOf ? ticks.findIndex((t) => t.version === asOf) : last;
  const selected = index < 0 ? ticks.filter((t) => compareVersions(t.version, asOf) <= 0).length - 1 : index;
  const [dragged, setDragged] = useState<number | null>(null);
  const position = dragged ?? Math.max(0, selected);
  const tick = ticks[position];
  const apply = () => {
    if (dragged === null) return;
    change({ as_of: ticks[dragged]?.version ?? null });
    setDragged(null);
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
          max={last}
          value={position}
          onChange={(e) => setDragged(Number(e.target.value))}
          onPointerUp={apply}
          onKeyUp={apply}
          onBlur={apply}
        />
        <div className="ticks" aria-hidden="true">
          {(ticks.length > 80 ? [] : ticks).map((t, n) => (
            <i key={t.version} style={{ left: `${(100 * n) / Math.max(1, last)}%` }} />
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

/** Orders versions `TIME~COUNT`; the count orders versions of one millisecond. */
export function compareVersions(a: string, b: string): number {
  const [x = "", m = "0"] = a.split("~");
  const [y = "", n = "0"] = b.split("~");
  const [p, q] = [Date.parse(x), Date.parse(y)];
  return p === q || Number.isNaN(p) || Number.isNaN(q) ? Number(m) - Number(n) : p - q;
}
