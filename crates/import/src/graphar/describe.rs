//! YAML descriptions of the files. Type names consist of letters, digits, `_` and `-`, so they need no quoting.

use super::edges::COLUMNS;
use esker_model::ValueKind;
use std::fmt::Write as _;

const VERSION: &str = "version: gar/v1\n";

fn kind(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Bool => "bool",
        ValueKind::I64 => "int64",
        ValueKind::F64 => "double",
        ValueKind::Timestamp => "timestamp",
        _ => "string",
    }
}

/// Returns a quoted YAML string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the property group with all properties.
fn group(columns: &[(String, ValueKind)], primary: &str) -> String {
    let mut out =
        "property_groups:\n  - prefix: all/\n    file_type: parquet\n    properties:\n".to_owned();
    for (name, of) in columns {
        let is_primary = name == primary;
        let _ = write!(
            out,
            "      - name: {}\n        data_type: {}\n        is_primary: {is_primary}\n        is_nullable: {}\n",
            quoted(name),
            kind(*of),
            !is_primary
        );
    }
    out
}

/// Describes a vertex type. The layout's index column is not a property.
pub(super) fn vertices(name: &str, columns: &[(String, ValueKind)], chunk: usize) -> String {
    let own = columns.get(1..).unwrap_or_default();
    format!(
        "type: {name}\nchunk_size: {chunk}\nprefix: vertex/{name}/\n{}{VERSION}",
        group(own, "id")
    )
}

/// Describes an edge type: source type, edge type, destination type.
pub(super) fn edges([from, name, to]: [&String; 3], vertices: usize, edges: u64) -> String {
    let columns = COLUMNS.map(|column| (column.to_owned(), ValueKind::String));
    format!(
        "src_type: {from}\nedge_type: {name}\ndst_type: {to}\nchunk_size: {edges}\nsrc_chunk_size: {vertices}\n\
         dst_chunk_size: {vertices}\ndirected: true\nprefix: edge/{from}_{name}_{to}/\nadj_lists:\n  - ordered: true\n    \
         aligned_by: src\n    prefix: ordered_by_source/\n    file_type: parquet\n{}{VERSION}",
        group(&columns, "")
    )
}

/// Describes the whole graph.
pub(super) fn graph(name: &str, vertices: &[String], edges: &[String]) -> String {
    let list = |what: &str, files: &[String]| {
        let mut out = format!("{what}:\n");
        for file in files {
            let _ = writeln!(out, "  - {file}");
        }
        if files.is_empty() {
            out = format!("{what}: []\n");
        }
        out
    };
    format!(
        "name: {}\nprefix: ./\n{}{}{VERSION}",
        quoted(name),
        list("vertices", vertices),
        list("edges", edges)
    )
}
