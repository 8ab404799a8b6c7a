// Profile of a traversal: a bar for each step and, in a cluster, one for each server of the step (GraphTrek, Fig. 9).

import { Empty } from "../../common/Feedback";
import { count } from "../../common/format";
import type { ServerStep, Step } from "./result";

/** Table with the counts and the time of each step. */
export function Profile({ steps, servers }: { steps: Step[]; servers: ServerStep[] }) {
  if (steps.length === 0) return <Empty>The traversal has no steps.</Empty>;
  const most = Math.max(1, ...steps.map((s) => s.micros));
  const edges = Math.max(1, ...servers.map((s) => s.edges));
  return (
    <div className="tablewrap">
      <table>
        <thead>
          <tr>
            <th className="num">Step</th>
            <th>Expression</th>
            <th className="num">Frontier</th>
            <th className="num">Edges read</th>
            <th className="num">Selected</th>
            <th className="num">Reached</th>
            <th className="num">Cached</th>
            <th className="num">Time</th>
            <th style={{ width: "24%" }}>
              <span className="visually-hidden">Share of the time</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {steps.map((s) => (
            <tr key={s.step}>
              <td className="num">{s.step}</td>
              <td className="mono">{s.text}</td>
              <td className="num">{count(s.frontier)}</td>
              <td className="num">{count(s.edges)}</td>
              <td className="num">{count(s.selected)}</td>
              <td className="num">{count(s.reached)}</td>
              <td className="num">{count(s.cached)}</td>
              <td className="num">{(s.micros / 1000).toFixed(2)} ms</td>
              <td>
                <div className="bar" aria-hidden="true">
                  <span style={{ width: `${(100 * s.micros) / most}%` }} />
                </div>
                {servers
                  .filter((p) => p.step === s.step)
                  .map((p) => (
                    <div key={p.server} className="row small" style={{ gap: 6, marginTop: 3 }}>
                      <span style={{ width: 60 }}>server {p.server}</span>
                      <div
                        className="bar"
                        style={{ flex: 1 }}
                        title={`${count(p.edges)} edges, waited ${(p.wait_micros / 1000).toFixed(1)} ms`}
                      >
                        <span style={{ width: `${(100 * p.edges) / edges}%`, background: "var(--t-run)" }} />
                      </div>
                      <span className="muted" style={{ width: 70, textAlign: "right" }}>
                        {count(p.edges)}
                      </span>
                    </div>
                  ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
