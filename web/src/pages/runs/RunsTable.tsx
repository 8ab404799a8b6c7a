// Table of runs, with their states.
import type { Schemas } from "../../api/client";
import { href } from "../../app/router";
import { ago, count, seconds, time } from "../../common/format";
import { Icon } from "../../common/icons";

/** A recorded run, with its state and counts. */
export type Run = Schemas["Run"];

/** Label with the state of a run. */
export function State({ run }: { run: Run }) {
  const labels = {
    ok: "done",
    failed: run.ended ?? "failed",
    running: run.ended ?? "running",
    unknown: run.ended ?? "unknown",
  };
  return <span className={`pill ${run.state}`}>{labels[run.state]}</span>;
}

interface Props {
  runs: Run[];
  short?: boolean;
  chosen?: string[];
  onChoose?: (id: string) => void;
}

/** Table of runs; `short` omits some columns, `onChoose` adds a column that selects runs for a comparison. */
export function RunsTable({ runs, short, chosen, onChoose }: Props) {
  return (
    <div className="tablewrap">
      <table>
        <thead>
          <tr>
            {onChoose && (
              <th>
                <span className="visually-hidden">Compare</span>
              </th>
            )}
            <th>Run</th>
            <th>State</th>
            <th>User</th>
            <th>Began</th>
            <th className="num">Duration</th>
            {!short && <th>Host</th>}
            <th className="num">In</th>
            <th className="num">Out</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.id}>
              {onChoose && (
                <td>
                  <input
                    type="checkbox"
                    style={{ minHeight: 0 }}
                    aria-label={`Compare ${run.id}`}
                    checked={chosen?.includes(run.id) ?? false}
                    onChange={() => onChoose(run.id)}
                  />
                </td>
              )}
              <td style={{ maxWidth: short ? 220 : 420 }}>
                <div className="clip">
                  <a href={href("run", { id: run.id })} title={run.command ?? run.id}>
                    <Icon name="run" className="t-run" /> {run.name || run.id}
                  </a>
                </div>
                {run.name && !short && (
                  <div className="muted small clip" title={run.id}>
                    {run.id}
                  </div>
                )}
              </td>
              <td>
                <State run={run} />
              </td>
              <td className="nowrap">{run.user}</td>
              <td className="nowrap" title={run.begin ?? ""}>
                {short ? ago(run.begin) : time(run.begin)}
              </td>
              <td className="num">{run.seconds === null ? "" : seconds(run.seconds)}</td>
              {!short && <td>{run.host}</td>}
              <td className="num">{count(run.inputs)}</td>
              <td className="num">{count(run.outputs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
