//! Schemas of pictures and of the change feed.

use serde_json::{Value as Json, json};

/// Schemas of these answers, by name.
pub(super) fn schemas() -> [(&'static str, Json); 2] {
    let text = || json!({"type": "string"});
    let integer = || json!({"type": "integer"});
    let number = || json!({"type": "number"});
    let flag = || json!({"type": "boolean"});
    let maybe = || json!({"type": ["string", "null"]});
    let said = |schema: Json, description: &str| {
        let mut schema = schema;
        schema["description"] = description.into();
        schema
    };
    let shown = json!({
        "type": "object",
        "required": ["id", "kind", "type", "execution", "label", "detail", "x", "y", "w", "h", "layer", "focus", "version",
                     "deleted", "up", "down", "members", "by"],
        "properties": {
            "id": said(text(), "name of the vertex; for a group its id, for `split`"),
            "kind": {"enum": ["vertex", "group"]},
            "type": text(), "execution": flag(), "label": text(), "detail": text(),
            "x": number(), "y": number(), "w": number(), "h": number(), "layer": integer(),
            "focus": flag(), "version": maybe(), "deleted": flag(),
            "up": said(integer(), "neighbours on the left that are not shown"),
            "down": said(integer(), "neighbours on the right that are not shown"),
            "members": said(integer(), "vertices that a group stands for"),
            "by": said(maybe(), "the common property of the members: array, directory, pattern, type"),
        },
    });
    let line = json!({
        "type": "object",
        "required": ["from", "to", "type", "points", "version", "count", "concurrent", "back"],
        "properties": {
            "from": text(), "to": text(), "type": text(),
            "points": {"type": "array", "items": {"type": "array", "items": number()}},
            "version": text(), "count": integer(),
            "concurrent": said(flag(), "the execution overlapped in time and may be involved"),
            "back": flag(),
        },
    });
    let stopped = json!({
        "type": "object",
        "required": ["vertices", "vertices_left", "reason"],
        "properties": {"vertices": {"type": "array", "items": text()}, "vertices_left": integer(), "reason": text()},
    });
    let tick = json!({
        "type": "object",
        "required": ["version", "what"],
        "properties": {"version": text(), "what": text()},
    });
    let array = |items: Json| json!({"type": "array", "items": items});
    let news = json!({
        "type": "object",
        "required": ["place", "missed", "vertices", "edges"],
        "properties": {
            "place": said(text(), "for the next call"),
            "missed": said(flag(), "the feed no longer has all changes since the position: read everything again"),
            "vertices": said(array(text()), "names, each once"),
            "edges": said(array(array(text())), "source, type and destination, each once"),
        },
    });
    [
        ("News", news),
        (
            "Picture",
            json!({
                "type": "object",
                "required": ["focus", "as_of", "width", "height", "boxes", "lines", "stopped", "left_out", "versions",
                             "versions_cut", "layout_micros", "micros"],
                "properties": {
                    "focus": text(), "as_of": maybe(), "width": number(), "height": number(),
                    "boxes": array(shown), "lines": array(line),
                    "stopped": said(array(stopped), "where the traversal stopped early"),
                    "left_out": said(integer(), "number of vertices of the picture that the caller may not see; 0 with access.conceal_counts"),
                    "versions": said(array(tick), "times of changes, oldest first"),
                    "versions_cut": flag(), "layout_micros": integer(), "micros": integer(),
                },
            }),
        ),
    ]
}
