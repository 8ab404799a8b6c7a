// Details of the selected box: attributes, tags, history and links.
import { useState } from "react";
import { type Schemas, useGet } from "../../api/client";
import { href } from "../../app/router";
import { Await } from "../../common/Feedback";
import { count, time, value } from "../../common/format";
import { familyOf, Icon } from "../../common/icons";
import { Facts } from "../runs/Run";
import type { Box } from "./index";

type History = { events: { version: string; change: string; attribute: string | null; value: unknown; archived: boolean }[] };

interface Props {
  /** Id of the selected vertex or group; `focus` is the subject of the page, `box` null outside of pictures. */
  id: string;
  asOf: string;
  focus: string;
  box: Box | null;
  onSplit: (group: string) => void;
}

/** Details of a vertex or of a group of vertices. */
export function Detail({ id, asOf, focus, box, onSplit }: Props) {
  if (box?.kind === "group") {
    return (
      <>
        <h2>{count(box.members)} vertices</h2>
        <p>
          {box.label} <span className="muted">{box.detail}</span>
        </p>
        <p className="muted">These vertices have the same neighbours in the picture, and are one box.</p>
        <button type="button" onClick={() => onSplit(id)}>
          Show them one by one
        </button>
      </>
    );
  }
  return <VertexDetail key={id} id={id} asOf={asOf} focus={focus} box={box} />;
}

function VertexDetail({ id, asOf, focus, box }: { id: string; asOf: string; focus: string; box: Box | null }) {
  const vertex = useGet<Schemas["Vertex"]>("/api/v1/vertex", { id, as_of: asOf });
  const [open, setOpen] = useState(false);
  const family = familyOf(id);
  return (
    <>
      <h2 style={{ overflowWrap: "anywhere" }}>
        <Icon name={family} className={`t-${family}`} /> {id.slice(id.indexOf(":") + 1)}
      </h2>
      <div className="row small" style={{ marginBottom: 8 }}>
        {id !== focus && <a href={href("lineage", { id })}>Lineage</a>}
        {family === "run" && <a href={href("run", { id })}>Run</a>}
        <a href={href("neighbourhood", { id })}>Neighbourhood</a>
        {family === "user" && <a href={href("runs", { user: id.slice(id.indexOf(":") + 1) })}>Runs</a>}
      </div>
      <Await request={vertex}>
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
      </Await>
      <h3>
        <button type="button" className="link" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide history" : "Show history"}
        </button>
      </h3>
      {open && <HistoryTable id={id} />}
    </>
  );
}

function HistoryTable({ id }: { id: string }) {
  const history = useGet<History>("/api/v1/history", { id });
  return (
    <Await request={history}>
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
    </Await>
  );
}
