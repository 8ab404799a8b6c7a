// Messages of a page: loading, errors, empty states and incomplete answers.
import type { ReactNode } from "react";
import { HttpError, type RequestState, UnreachableError } from "../api/client";

/** Grey lines in place of data that is loading. */
export function Skeleton({ rows = 5 }: { rows?: number }) {
  const widths = [70, 92, 84, 60, 88, 76, 95, 66];
  return (
    <div role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: all lines are equal
        <div key={i} className="skeleton" style={{ width: `${widths[i % widths.length]}%` }} />
      ))}
    </div>
  );
}

/** Removes the prefix `error: ` of the server's messages, which have a heading of their own here. */
export function withoutPrefix(message: string): string {
  return message.replace(/^error: /, "");
}

/** Message for a failed request; with `onRetry`, it has a button that repeats the request. */
export function ErrorNote({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  if (error instanceof UnreachableError) {
    return <div className="note bad">The server does not answer. This page repeats the request until the server responds.</div>;
  }
  const status = error instanceof HttpError ? error.status : 0;
  const head =
    status === 404
      ? "Not found"
      : status === 403
        ? "Not permitted"
        : status === 401
          ? "No valid credential"
          : status >= 500
            ? "The server failed"
            : "Refused";
  const [first = "", ...rest] = withoutPrefix(error.message).split("\n");
  return (
    <div className={`note ${status === 404 ? "warn" : "bad"}`} role="alert">
      <strong>{head}:</strong> {first}
      {rest.length > 0 && <pre>{rest.join("\n")}</pre>}
      {onRetry && (
        <div className="row" style={{ marginTop: 8 }}>
          <button type="button" onClick={onRetry}>
            Try again
          </button>
        </div>
      )}
    </div>
  );
}

/** Text in place of an empty answer, with commands that add data. */
export function Empty({ children, command }: { children: ReactNode; command?: string }) {
  return (
    <div className="empty">
      <div>{children}</div>
      {command && <pre>{command}</pre>}
    </div>
  );
}

/** Renders the data of a request; before the first response, it shows a skeleton of `rows` lines or the error. */
export function Await<T>({
  request,
  rows,
  children,
}: {
  request: RequestState<T>;
  rows?: number;
  children: (data: T) => ReactNode;
}) {
  if (request.data !== null) {
    return (
      <>
        {request.error && !(request.error instanceof UnreachableError) && (
          <ErrorNote error={request.error} onRetry={request.reload} />
        )}
        {children(request.data)}
      </>
    );
  }
  if (request.error) return <ErrorNote error={request.error} onRetry={request.reload} />;
  return <Skeleton rows={rows ?? 6} />;
}

/** Message for an answer that is not complete: the reason, and how many items were read. `unit` names the items. */
export function StoppedNote({ stopped, unit }: { stopped: { reason: string; looked_at: number } | null; unit: string }) {
  if (!stopped) return null;
  return (
    <div className="note warn" role="status">
      Stopped here ({stopped.reason}): {stopped.looked_at.toLocaleString("en-GB")} {unit} were read, and there are more.
    </div>
  );
}
