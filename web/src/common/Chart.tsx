// Charts of values over time (uPlot), in the colours of the page.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useDark } from "../app/theme";
import { short } from "./format";

/** One line of a chart, with a value or null for each time. */
export interface Series {
  name: string;
  /** Name of a colour variable in styles.css, without `--`. */
  colour: string;
  values: (number | null)[];
}

/** Formats the ticks of the time axis; ticks less than a minute apart have seconds. */
function clock(ticks: number[]): string[] {
  const withSeconds = ticks.length > 1 && (ticks[1] ?? 0) - (ticks[0] ?? 0) < 60;
  return ticks.map((t) => new Date(t * 1000).toTimeString().slice(0, withSeconds ? 8 : 5));
}

/** Line chart: `times` in seconds since 1970, `height` in pixels. */
export function Chart({
  times,
  series,
  height = 160,
  label,
}: {
  times: number[];
  series: Series[];
  height?: number;
  label: string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const dark = useDark();
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change between light and dark changes the colours
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const axis = {
      stroke: colour("fg-2"),
      grid: { stroke: colour("bg-3"), width: 1 },
      ticks: { stroke: colour("line"), width: 1 },
    };
    const plot = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height,
        legend: { show: series.length > 1, live: false },
        cursor: { y: false },
        axes: [
          { ...axis, values: (_, ticks) => clock(ticks) },
          { ...axis, size: 52, values: (_, ticks) => ticks.map((v) => short(v)) },
        ],
        scales: { y: { range: (_, __, max) => [0, Math.max(1, (max ?? 0) * 1.1)] } },
        series: [
          {},
          ...series.map((s) => ({
            label: s.name,
            stroke: colour(s.colour),
            width: 1.5,
            fill: `${colour(s.colour)}22`,
            points: { show: false },
          })),
        ],
      },
      [times, ...series.map((s) => s.values)] as uPlot.AlignedData,
      element,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: Math.max(200, element.clientWidth), height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [times, series, height, dark]);
  return <div ref={box} role="img" aria-label={label} />;
}
