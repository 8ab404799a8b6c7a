// The page of a link with a ticket: it exchanges the ticket for a session, and removes it from the address.
import { useEffect, useState } from "react";
import { post, refresh } from "../../api/client";
import { useRoute } from "../../app/router";
import { ErrorNote, Skeleton } from "../../common/Feedback";

/** Page that begins a session; parameters `ticket` and `to`, the address to open next. */
export default function EnterPage() {
  const { params } = useRoute();
  const [error, setError] = useState<Error | null>(null);
  const ticket = params.get("ticket") ?? "";
  useEffect(() => {
    const to = params.get("to") ?? "#/";
    // A ticket is valid once, and React's development mode runs effects twice.
    const timer = window.setTimeout(() => {
      post("/api/v1/session", { ticket })
        .then(() => {
          window.history.replaceState(null, "", to);
          window.dispatchEvent(new HashChangeEvent("hashchange"));
          refresh();
        })
        .catch(setError);
    }, 30);
    return () => window.clearTimeout(timer);
  }, [ticket, params]);
  return (
    <>
      <h1 className={error ? undefined : "visually-hidden"} style={{ marginBottom: 12 }}>
        {error ? "This link does not open the console" : "Opening the console"}
      </h1>
      {error ? <ErrorNote error={error} /> : <Skeleton rows={3} />}
    </>
  );
}
