//! What the files are, in YAML. Names of types are letters, digits, `_` and `-`: they stand as they are.

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

/// Text in quotes, whatever it holds.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// One group with all properties.
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

/// A type of vertices. The column of the layout's own is none of their properties.
pub(super) fn vertices(name: &str, columns: &[(String, ValueKind)], chunk: usize) -> String {
    let own = columns.get(1..).unwrap_or_default();
    format!(
        "type: {name}\nchunk_size: {chunk}\nprefix: vertex/{name}/\n{}{VERSION}",
        group(own, "id")
    )
}

/// A kind of edges: the type of their sources, their own, that of their destinations.
pub(super) fn edges([from, name, to]: [&String; 3], vertices: usize, edges: u64) -> String {
    let columns = COLUMNS.map(|column| (column.to_owned(), ValueKind::String));
    format!(
        "src_type: {from}\nedge_type: {name}\ndst_type: {to}\nchunk_size: {edges}\nsrc_chunk_size: {vertices}\n\
         dst_chunk_size: {vertices}\ndirected: true\nprefix: edge/{from}_{name}_{to}/\nadj_lists:\n  - ordered: true\n    \
         aligned_by: src\n    prefix: ordered_by_source/\n    file_type: parquet\n{}{VERSION}",
        group(&columns, "")
    )
}

/// All of it.
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
