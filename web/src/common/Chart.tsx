// A series over time (uPlot), in the colours of the page.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useDark } from "../app/theme";
import { short } from "./format";

export interface Series {
  name: string;
  /** The name of a colour of styles.css. */
  colour: string;
  values: (number | null)[];
}

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
  // biome-ignore lint/correctness/useExhaustiveDependencies: colours are read anew when light and dark change
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
        axes: [axis, { ...axis, size: 52, values: (_, all) => all.map((v) => short(v)) }],
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
    const watch = new ResizeObserver(() => plot.setSize({ width: Math.max(200, element.clientWidth), height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [times, series, height, dark]);
  return <div ref={box} role="img" aria-label={label} />;
}
