// The page that compares two runs; by default it shows only unexpected differences.
import { type Schemas, useGet } from "../../api/client";
import { change, href, useRoute } from "../../app/router";
import { CopyAs } from "../../common/CopyAs";
import { Await } from "../../common/Feedback";
import { count, seconds, time } from "../../common/format";
import { python, shell } from "../../common/quote";
import { type Run, State } from "./RunsTable";

type Diff = Schemas["RunsDiff"];

/** Page that compares two runs; parameters `a`, `b`, and `all` for equal and expected values as well. */
export default function DiffPage() {
  const { params } = useRoute();
  const a = params.get("a") ?? "";
  const b = params.get("b") ?? "";
  const all = params.get("all") === "1";
  const diff = useGet<Diff>(a && b ? "/api/v1/runs/diff" : null, { a, b });
  return (
    <>
      <div className="head">
        <h1>Two runs</h1>
        <label>
          <input
            type="checkbox"
            style={{ minHeight: 0 }}
            checked={all}
            onChange={() => change({ all: all ? null : "1" }, true)}
          />{" "}
          Include equal values, and values that differ between any two runs
        </label>
        <div className="grow" />
        <button type="button" onClick={() => change({ a: b, b: a })}>
          Swap
        </button>
        <CopyAs
          formats={{
            CLI: `esker diff T ${shell(a)} ${shell(b)}${all ? " --all" : ""}`,
            Python: `db.diff(${python(a)}, ${python(b)})`,
            HTTP: `GET /api/v1/runs/diff?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`,
          }}
        />
      </div>
      {a && b ? (
        <Await request={diff}>{(data) => <Differences diff={data} all={all} />}</Await>
      ) : (
        <p>
          Choose two runs in <a href={href("runs")}>the list</a>.
        </p>
      )}
    </>
  );
}

function Head({ run, name }: { run: Run; name: string }) {
  return (
    <div>
      <a href={href("run", { id: run.id })}>{run.name || run.id}</a> <State run={run} />
      <div className="muted small">
        {name} · {run.id} · {time(run.begin)} {run.seconds !== null && `· ${seconds(run.seconds)}`}
      </div>
    </div>
  );
}

function Differences({ diff, all }: { diff: Diff; all: boolean }) {
  const sections = diff.sections
    .map((s) => ({ ...s, rows: s.rows.filter((r) => all || (!r.same && !r.expected)) }))
    .filter((s) => s.rows.length > 0);
  return (
    <>
      <div className="grid" style={{ marginBottom: 12 }}>
        <div className="card s6">
          <Head run={diff.a} name="before" />
        </div>
        <div className="card s6">
          <Head run={diff.b} name="after" />
        </div>
      </div>
      <p className="muted">
        {count(diff.differing)} values differ, {count(diff.same)} are equal, {count(diff.expected)} differ between any two runs.
      </p>
      {sections.length === 0 && <div className="note">The runs differ only in values that differ between any two runs.</div>}
      {sections.map((section) => (
        <section key={section.name} className="card" style={{ marginBottom: 12 }} aria-label={section.name}>
          <h2>{section.name}</h2>
          <div className="tablewrap">
            <table style={{ tableLayout: "fixed" }}>
              <thead>
                <tr>
                  <th style={{ width: "24%" }}>Name</th>
                  <th style={{ width: "13%" }}>Change</th>
                  <th>Before</th>
                  <th>After</th>
                </tr>
              </thead>
              <tbody>
                {section.rows.map((row) => (
                  <tr key={row.name}>
                    <td>{row.name}</td>
                    <td>
                      <span
                        className={`pill ${row.same ? "unknown" : row.change === "removed" ? "failed" : row.change === "added" ? "ok" : "running"}`}
                      >
                        {row.change}
                      </span>
                    </td>
                    <td className="mono">{row.before ?? <span className="muted">–</span>}</td>
                    <td className="mono">{row.after ?? <span className="muted">–</span>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      ))}
    </>
  );
}
