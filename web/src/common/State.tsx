// What a page shows while it has no answer, or another than it asked for.
import type { ReactNode } from "react";
import { type Asked, Gone, Refused } from "../api/client";

export function Skeleton({ rows = 5 }: { rows?: number }) {
  const widths = [70, 92, 84, 60, 88, 76, 95, 66];
  return (
    <div role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are all the same
        <div key={i} className="skeleton" style={{ width: `${widths[i % widths.length]}%` }} />
      ))}
    </div>
  );
}

/** A refusal without the word that terminals begin it with: here it has a heading. */
export function bare(message: string): string {
  return message.replace(/^error: /, "");
}

export function ErrorNote({ error, again }: { error: Error; again?: () => void }) {
  if (error instanceof Gone) {
    return <div className="note bad">The server does not answer. It is looked for; this page goes on once it is back.</div>;
  }
  const status = error instanceof Refused ? error.status : 0;
  const head =
    status === 404
      ? "Not there"
      : status === 403
        ? "Not allowed"
        : status === 401
          ? "Not let in"
          : status >= 500
            ? "The server failed"
            : "Refused";
  const [first = "", ...rest] = error.message.replace(/^error: /, "").split("\n");
  return (
    <div className={`note ${status === 404 ? "warn" : "bad"}`} role="alert">
      <strong>{head}:</strong> {first}
      {rest.length > 0 && <pre>{rest.join("\n")}</pre>}
      {again && (
        <div className="row" style={{ marginTop: 8 }}>
          <button type="button" onClick={again}>
            Try again
          </button>
        </div>
      )}
    </div>
  );
}

export function Empty({ children, command }: { children: ReactNode; command?: string }) {
  return (
    <div className="empty">
      <div>{children}</div>
      {command && <pre>{command}</pre>}
    </div>
  );
}

/** The answer once it is there; what is instead of it until then. */
export function Answer<T>({ of, rows, children }: { of: Asked<T>; rows?: number; children: (data: T) => ReactNode }) {
  if (of.data !== null) {
    return (
      <>
        {of.error && !(of.error instanceof Gone) && <ErrorNote error={of.error} again={of.again} />}
        {children(of.data)}
      </>
    );
  }
  if (of.error) return <ErrorNote error={of.error} again={of.again} />;
  return <Skeleton rows={rows ?? 6} />;
}

/** Why an answer is not whole. */
export function StoppedNote({ stopped, what }: { stopped: { reason: string; looked_at: number } | null; what: string }) {
  if (!stopped) return null;
  return (
    <div className="note warn" role="status">
      Stopped here ({stopped.reason}): {stopped.looked_at.toLocaleString("en-GB")} {what} were looked at, and there are more.
    </div>
  );
}
