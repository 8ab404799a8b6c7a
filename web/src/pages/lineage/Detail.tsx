// What was chosen in the picture: all that is known of it, and what one may do with it.
import { useState } from "react";
import { type Schemas, useGet } from "../../api/client";
import { href } from "../../app/router";
import { count, time, value } from "../../common/format";
import { familyOf, Icon } from "../../common/icons";
import { Answer } from "../../common/State";
import { Facts } from "../runs/Run";
import type { Box } from "./index";

type History = { events: { version: string; change: string; attribute: string | null; value: unknown; archived: boolean }[] };

interface Props {
  id: string;
  asOf: string;
  focus: string;
  box: Box | null;
  onSplit: (group: string) => void;
}

export function Detail({ id, asOf, focus, box, onSplit }: Props) {
  if (box?.kind === "group") {
    return (
      <>
        <h2>{count(box.members)} vertices</h2>
        <p>
          {box.label} <span className="muted">{box.detail}</span>
        </p>
        <p className="muted">They hang together with just the same others, and are shown as one.</p>
        <button type="button" onClick={() => onSplit(id)}>
          Show them one by one
        </button>
      </>
    );
  }
  return <One key={id} id={id} asOf={asOf} focus={focus} box={box} />;
}

function One({ id, asOf, focus, box }: { id: string; asOf: string; focus: string; box: Box | null }) {
  const vertex = useGet<Schemas["Vertex"]>("/api/v1/vertex", { id, as_of: asOf });
  const [more, setMore] = useState(false);
  const of = familyOf(id);
  return (
    <>
      <h2 style={{ overflowWrap: "anywhere" }}>
        <Icon name={of} className={`t-${of}`} /> {id.slice(id.indexOf(":") + 1)}
      </h2>
      <div className="row small" style={{ marginBottom: 8 }}>
        {id !== focus && <a href={href("lineage", { id })}>Its lineage</a>}
        {of === "run" && <a href={href("run", { id })}>Its page</a>}
        <a href={href("around", { id })}>Neighbourhood</a>
        {of === "user" && <a href={href("runs", { user: id.slice(id.indexOf(":") + 1) })}>Runs</a>}
      </div>
      <Answer of={vertex}>
        {(data) => (
          <>
            <dl className="pairs small">
              <dt>Type</dt>
              <dd>{data.type ?? "never inserted"}</dd>
              <dt>Version</dt>
              <dd>{time(data.version) || "–"}</dd>
              {box && (
                <>
                  <dt>Not shown</dt>
                  <dd>
                    {count(box.up)} before, {count(box.down)} after
                  </dd>
                </>
              )}
            </dl>
            <Facts title="Attributes and tags" facts={data.attributes as Record<string, unknown>} />
          </>
        )}
      </Answer>
      <h3>
        <button type="button" className="link" aria-expanded={more} onClick={() => setMore(!more)}>
          {more ? "Hide its history" : "Show its history"}
        </button>
      </h3>
      {more && <Past id={id} />}
    </>
  );
}

function Past({ id }: { id: string }) {
  const history = useGet<History>("/api/v1/history", { id });
  return (
    <Answer of={history}>
      {(data) => (
        <table className="small">
          <tbody>
            {data.events.slice(0, 100).map((e) => (
              <tr key={`${e.version} ${e.attribute}`}>
                <td className="nowrap muted">{time(e.version)}</td>
                <td>
                  {e.change} {e.attribute}{" "}
                  {e.attribute !== null && e.change === "set" && <span className="muted">{value(e.value)}</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Answer>
  );
}
