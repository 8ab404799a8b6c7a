// The page Runs: recorded runs, newest first, by text, user, state and time.
import { useEffect, useState } from "react";
import { get, type Schemas, useGet } from "../../api/client";
import { change, href, useRoute } from "../../app/router";
import { CopyAs } from "../../common/CopyAs";
import { Await, Empty, StoppedNote } from "../../common/Feedback";
import { shell } from "../../common/quote";
import { type Run, RunsTable } from "./RunsTable";

/** Page Runs; parameters `user`, `state`, `text` and `since`. */
export default function RunsPage() {
  const { params } = useRoute();
  const query = {
    user: params.get("user"),
    state: params.get("state"),
    text: params.get("text"),
    since: params.get("since"),
  };
  const runs = useGet<Schemas["Runs"]>("/api/v1/runs", { ...query, limit: 100 }, 10_000);
  const [chosen, setChosen] = useState<string[]>([]);
  const [more, setMore] = useState<{ runs: Run[]; next: string | null } | null>(null);
  const key = JSON.stringify(query);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another query begins with its first page
  useEffect(() => setMore(null), [key]);
  const choose = (id: string) =>
    setChosen((ids) => (ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id].slice(-2)));
  const [a, b] = chosen;
  const flags = [
    query.user && `--user ${shell(query.user)}`,
    query.state === "failed" && "--failed",
    query.since && `--since ${shell(query.since)}`,
  ].filter(Boolean);
  return (
    <>
      <div className="head">
        <h1>Runs</h1>
        <Field name="text" label="Contains" value={query.text} />
        <Field name="user" label="User" value={query.user} />
        <label>
          State
          <select value={query.state ?? ""} onChange={(e) => change({ state: e.target.value })}>
            <option value="">any</option>
            {["running", "ok", "failed", "unknown"].map((s) => (
              <option key={s}>{s}</option>
            ))}
          </select>
        </label>
        <Field name="since" label="Since" value={query.since} placeholder="2026-03-01" />
        <div className="grow" />
        {a && b ? (
          <a href={href("diff", { a, b })}>
            <button type="button" className="primary" tabIndex={-1}>
              Compare the two runs
            </button>
          </a>
        ) : (
          <span className="muted small">Select two runs to compare</span>
        )}
        <CopyAs
          formats={{
            CLI: `esker log T ${flags.join(" ")}`.trim(),
            Python: 'db.vertices("Execution")',
            Travel: 'v(type="Execution")',
            HTTP: "GET /api/v1/runs",
          }}
        />
      </div>
      <Await request={runs} rows={12}>
        {(data) => {
          const all = more ? [...data.runs, ...more.runs] : data.runs;
          const next = more ? more.next : data.next;
          if (all.length === 0) {
            return (
              <Empty command="esker run --target T -- ./program">
                {Object.values(query).some(Boolean)
                  ? "No run matches."
                  : "No runs are recorded yet. This command records a program and the files it uses:"}
              </Empty>
            );
          }
          return (
            <>
              <StoppedNote stopped={data.stopped} unit="runs" />
              <RunsTable runs={all} chosen={chosen} onChoose={choose} />
              {next && (
                <button
                  type="button"
                  style={{ marginTop: 8 }}
                  onClick={async () => {
                    const page = await get<Schemas["Runs"]>("/api/v1/runs", { ...query, after: next, limit: 200 });
                    setMore((m) => ({ runs: [...(m?.runs ?? []), ...page.runs], next: page.next }));
                  }}
                >
                  Earlier runs
                </button>
              )}
            </>
          );
        }}
      </Await>
    </>
  );
}

function Field({
  name,
  label,
  value,
  placeholder,
}: {
  name: string;
  label: string;
  value: string | null;
  placeholder?: string;
}) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  return (
    <label>
      {label}
      <input
        type="text"
        size={9}
        value={text}
        placeholder={placeholder}
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => e.key === "Enter" && change({ [name]: text.trim() })}
        onBlur={() => text.trim() !== (value ?? "") && change({ [name]: text.trim() })}
      />
    </label>
  );
}
