// A link that opens once: its ticket becomes a session, and the address forgets it.
import { useEffect, useState } from "react";
import { post, refresh } from "../../api/client";
import { useRoute } from "../../app/router";
import { ErrorNote, Skeleton } from "../../common/State";

export default function Enter() {
  const { params } = useRoute();
  const [error, setError] = useState<Error | null>(null);
  const ticket = params.get("ticket") ?? "";
  useEffect(() => {
    const to = params.get("to") ?? "#/";
    // The ticket is good once: React asks twice while it is developed.
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
        {error ? "This link does not open anything" : "Coming in"}
      </h1>
      {error ? <ErrorNote error={error} /> : <Skeleton rows={3} />}
    </>
  );
}
