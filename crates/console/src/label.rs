//! Labels and short descriptions of vertices.

use esker_model::{Schema, Value, Vertex, VertexId};

/// Label of a vertex for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Full name of the vertex, `type:key`.
    pub name: String,
    /// Name of the type; empty for a vertex that was never inserted.
    pub type_name: String,
    /// Short label: the last part of a path, the name of a run.
    pub label: String,
    /// Short description of the vertex.
    pub detail: String,
}

/// Returns the label of a vertex; `vertex` is `None` if it was never inserted.
pub fn of(id: VertexId, vertex: Option<&Vertex>, schema: &Schema) -> Label {
    let Some(vertex) = vertex else {
        let name = format!("?:{id}");
        return Label {
            label: name.clone(),
            name,
            type_name: String::new(),
            detail: "never inserted".into(),
        };
    };
    let type_name = schema.vertex_type(vertex.type_id).map(|t| t.name.clone());
    Label {
        name: vertex.name(schema),
        type_name: type_name.unwrap_or_default(),
        label: short(vertex),
        detail: detail(vertex),
    }
}

/// Returns a non-empty text attribute.
pub fn text<'a>(vertex: &'a Vertex, name: &str) -> Option<&'a str> {
    match vertex.attribute(name) {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// Returns an integer attribute.
pub fn number(vertex: &Vertex, name: &str) -> Option<i64> {
    match vertex.attribute(name) {
        Some(Value::I64(number)) => Some(*number),
        _ => None,
    }
}

/// Returns a time attribute, in nanoseconds since 1970.
pub fn time(vertex: &Vertex, name: &str) -> Option<i64> {
    match vertex.attribute(name) {
        Some(Value::Timestamp(nanos)) => Some(*nanos),
        _ => None,
    }
}

/// Returns the last part of a path, or the complete text if it is no path.
pub fn last_part(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit('/').next() {
        Some(last) if !last.is_empty() => last,
        _ => path,
    }
}

/// Returns the directory of a path; empty without one.
pub fn directory(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/",
        Some((directory, _)) => directory,
        None => "",
    }
}

fn short(vertex: &Vertex) -> String {
    if vertex.key.contains('/') {
        return last_part(&vertex.key).to_owned();
    }
    match text(vertex, "name") {
        Some(name) => name.to_owned(),
        None => vertex.key.clone(),
    }
}

fn detail(vertex: &Vertex) -> String {
    let mut parts = Vec::new();
    if vertex.deleted {
        parts.push("deleted".to_owned());
    }
    if let (Some(start), Some(end)) = (time(vertex, "start"), time(vertex, "end")) {
        parts.push(duration(end.saturating_sub(start)));
    }
    if let Some(host) = text(vertex, "host") {
        parts.push(host.to_owned());
    }
    if let Some(size) = number(vertex, "size").and_then(|n| u64::try_from(n).ok()) {
        parts.push(bytes(size));
    }
    if !vertex.key.contains('/') && text(vertex, "name").is_some_and(|name| name != vertex.key) {
        parts.push(vertex.key.clone());
    }
    parts.truncate(3);
    parts.join(" · ")
}

/// Formats a duration in nanoseconds: `3 min 20 s`.
pub fn duration(nanos: i64) -> String {
    let seconds = nanos.max(0) / 1_000_000_000;
    match seconds {
        0 => format!("{} ms", nanos.max(0) / 1_000_000),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Formats a size in bytes: `1.5 GiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1_024.0, 0);
    while value >= 1_023.95 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Replaces each number in a name by `#`, so that names that differ only by numbers have the same pattern.
pub fn pattern(name: &str) -> String {
    // File extensions are kept: `.h5` and `.bz2` contain no running number.
    let (name, ending) = match name.rfind('.') {
        Some(at) if name[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic()) => {
            name.split_at(at)
        }
        _ => (name, ""),
    };
    let mut out = String::with_capacity(name.len() + ending.len());
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_ascii_digit() {
            while chars.next_if(char::is_ascii_digit).is_some() {}
            out.push('#');
        } else {
            out.push(c);
        }
    }
    out.push_str(ending);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_for_people() {
        assert_eq!(bytes(1_023), "1023 B");
        assert_eq!(bytes(1_024), "1.0 KiB");
        assert_eq!(bytes(1_048_575), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(duration(7_000_000), "7 ms");
        assert_eq!(duration(200_000_000_000), "3 min 20 s");
        assert_eq!(duration(90_000_000_000_000), "1 d 1 h");
        assert_eq!(duration(-5), "0 ms");
    }

    #[test]
    fn parts_of_paths() {
        assert_eq!(last_part("/a/b.nc"), "b.nc");
        assert_eq!(last_part("/a/b/"), "b");
        assert_eq!(last_part("/"), "/");
        assert_eq!(directory("/a/b.nc"), "/a");
        assert_eq!(directory("/a"), "/");
        assert_eq!(directory("a"), "");
    }

    #[test]
    fn names_that_differ_by_numbers_have_one_pattern() {
        assert_eq!(pattern("out_0042.nc"), "out_#.nc");
        assert_eq!(pattern("out_7.nc"), "out_#.nc");
        assert_eq!(pattern("README"), "README");
        assert_eq!(pattern("part_17.h5"), "part_#.h5");
        assert_eq!(pattern("ior.out.00000012"), "ior.out.#");
    }
}
