// What ran: the latest first, by who, when and how it ended.
import { useEffect, useState } from "react";
import { get, type Schemas, useGet } from "../../api/client";
import { change, href, useRoute } from "../../app/router";
import { CopyAs } from "../../common/CopyAs";
import { shell } from "../../common/quote";
import { Answer, Empty, StoppedNote } from "../../common/State";
import { type Run, RunsTable } from "./RunsTable";

export default function RunsPage() {
  const { params } = useRoute();
  const asked = {
    user: params.get("user"),
    state: params.get("state"),
    text: params.get("text"),
    since: params.get("since"),
  };
  const runs = useGet<Schemas["Runs"]>("/api/v1/runs", { ...asked, limit: 100 }, 10_000);
  const [chosen, setChosen] = useState<string[]>([]);
  const [more, setMore] = useState<{ runs: Run[]; next: string | null } | null>(null);
  const key = JSON.stringify(asked);
  // biome-ignore lint/correctness/useExhaustiveDependencies: other filters, other runs
  useEffect(() => setMore(null), [key]);
  const choose = (id: string) =>
    setChosen((all) => (all.includes(id) ? all.filter((one) => one !== id) : [...all, id].slice(-2)));
  const [a, b] = chosen;
  const flags = [
    asked.user && `--user ${shell(asked.user)}`,
    asked.state === "failed" && "--failed",
    asked.since && `--since ${shell(asked.since)}`,
  ].filter(Boolean);
  return (
    <>
      <div className="head">
        <h1>Runs</h1>
        <Field name="text" label="Contains" value={asked.text} />
        <Field name="user" label="User" value={asked.user} />
        <label>
          State
          <select value={asked.state ?? ""} onChange={(e) => change({ state: e.target.value })}>
            <option value="">any</option>
            {["running", "ok", "failed", "unknown"].map((s) => (
              <option key={s}>{s}</option>
            ))}
          </select>
        </label>
        <Field name="since" label="Since" value={asked.since} placeholder="2026-03-01" />
        <div className="grow" />
        {a && b ? (
          <a href={href("diff", { a, b })}>
            <button type="button" className="primary" tabIndex={-1}>
              Compare the two
            </button>
          </a>
        ) : (
          <span className="muted small">Choose two to compare</span>
        )}
        <CopyAs
          ways={{
            CLI: `esker log T ${flags.join(" ")}`.trim(),
            Python: 'db.vertices("Execution")',
            Travel: 'v(type="Execution")',
            HTTP: "GET /api/v1/runs",
          }}
        />
      </div>
      <Answer of={runs} rows={12}>
        {(data) => {
          const all = more ? [...data.runs, ...more.runs] : data.runs;
          const next = more ? more.next : data.next;
          if (all.length === 0) {
            return (
              <Empty command="esker run --target T -- ./program">
                {Object.values(asked).some(Boolean)
                  ? "No run fits."
                  : "Nothing has run yet. This records a command and what it used:"}
              </Empty>
            );
          }
          return (
            <>
              <StoppedNote stopped={data.stopped} what="runs" />
              <RunsTable runs={all} chosen={chosen} onChoose={choose} />
              {next && (
                <button
                  type="button"
                  style={{ marginTop: 8 }}
                  onClick={async () => {
                    const page = await get<Schemas["Runs"]>("/api/v1/runs", { ...asked, after: next, limit: 200 });
                    setMore((m) => ({ runs: [...(m?.runs ?? []), ...page.runs], next: page.next }));
                  }}
                >
                  Earlier ones
                </button>
              )}
            </>
          );
        }}
      </Answer>
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
