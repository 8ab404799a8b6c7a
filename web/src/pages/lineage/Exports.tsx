// Downloads of the page Lineage: the picture as SVG or PNG, and the complete lineage as an RO-Crate.
import { useState } from "react";
import { lastPart } from "../../common/format";
import { Icon } from "../../common/icons";
import type { Picture } from "./index";
import { svg } from "./svg";

function save(blob: Blob, name: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Renders the picture at twice its size in pixels, up to 8,000 pixels a side, which browsers can draw. */
async function png(picture: Picture): Promise<Blob> {
  const text = svg(picture);
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const scale = Math.min(2, 8_000 / Math.max(image.width, image.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(image.width * scale);
    canvas.height = Math.round(image.height * scale);
    const context = canvas.getContext("2d");
    if (!context) throw new Error("this browser cannot draw the picture as PNG: save it as SVG");
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
    if (!blob) throw new Error("the picture is too large for PNG: save it as SVG");
    return blob;
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** Buttons that download the picture or the lineage. */
export function Exports({ picture, id, asOf }: { picture: Picture; id: string; asOf: string }) {
  const [error, setError] = useState("");
  const name = lastPart(id).replace(/[^\w.-]+/g, "_") || "lineage";
  const query = new URLSearchParams(asOf ? { id, as_of: asOf } : { id });
  return (
    <span className="row small">
      <button type="button" onClick={() => save(new Blob([svg(picture)], { type: "image/svg+xml" }), `${name}.svg`)}>
        SVG
      </button>
      <button
        type="button"
        onClick={() =>
          png(picture)
            .then((blob) => save(blob, `${name}.png`))
            .catch((e: Error) => setError(e.message))
        }
      >
        PNG
      </button>
      <a href={`/api/v1/export/lineage?${query}`} download={`${name}-ro-crate-metadata.json`}>
        RO-Crate
      </a>
      {error && (
        <span role="alert">
          <Icon name="warn" /> {error}
        </span>
      )}
    </span>
  );
}
