//! `esker get`: prints vertices with their attributes.

use crate::args::{GetArgs, RowFormat};
use crate::graph::{NamedVertex, vertex_type_name};
use crate::near;
use crate::times;
use esker_model::schema::nearest;
use esker_model::{GraphRead as _, Schema, Value, Version, Vertex};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows, Style, quote, value_text, vertex_attributes_json};
use esker_terminal::zone;
use std::collections::BTreeSet;
use std::io::{self, Write};

pub(crate) fn run(args: &GetArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context
        .open(&args.target)?
        .on_behalf_of(args.principal.principal.as_ref());
    let schema = database.schema()?;
    let named = NamedVertex::parse_all(&args.vertices, &database, &schema)?
        .into_iter()
        .map(|named| named.or_only_job(&database, &schema))
        .collect::<esker_model::Result<Vec<_>>>()?;
    let as_of = args.as_of.unwrap_or(Version::MAX);
    let ids: Vec<_> = named.iter().map(|n| n.vertex.id).collect();
    let vertices = database.read_vertices(&ids, as_of)?;

    let mut outcome = Outcome::Done;
    let mut found = Vec::with_capacity(vertices.len());
    let mut had: BTreeSet<String> = BTreeSet::new();
    for (named, vertex) in named.iter().zip(vertices) {
        match vertex {
            Some(vertex) if !vertex.deleted => {
                had.extend(vertex.attributes.iter().map(|(name, _)| name.to_owned()));
                had.extend(vertex.user.iter().map(|a| a.name.clone()));
                found.push(keep_only(vertex, &args.attributes));
            }
            Some(vertex) => {
                outcome = Outcome::Partly;
                context.complain(&format!(
                    "`{}` was deleted at {}; `esker history` and --as-of show what it was",
                    named.name, vertex.version
                ));
            }
            None => {
                outcome = Outcome::Partly;
                let error = match args.as_of {
                    Some(time) => named.missing(&format!(" as of {}", times::format_version(time))),
                    None => near::missing(named, "", &database, &schema),
                };
                context.complain(&error.to_string());
            }
        }
    }
    for name in args.attributes.iter().filter(|name| !had.contains(*name)) {
        if !found.is_empty() {
            let near = nearest(name, had.iter().map(String::as_str));
            let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            context.note(&format!("no attribute `{name}`{hint}"));
        }
    }
    match args.format.format {
        RowFormat::Table => {
            for (i, vertex) in found.iter().enumerate() {
                if i > 0 {
                    writeln!(context.out)?;
                }
                write_vertex(&mut context.out, vertex, &schema, context.style)?;
            }
        }
        format @ (RowFormat::Json | RowFormat::Ndjson | RowFormat::Csv) => {
            let mut rows = Rows::new(
                &mut context.out,
                format,
                context.style,
                &["id", "type", "version", "attributes"],
            );
            for vertex in &found {
                rows.row(vec![
                    vertex.name(&schema).into(),
                    vertex_type_name(&schema, vertex.type_id).into(),
                    Cell::Version(vertex.version),
                    Cell::Json(vertex_attributes_json(vertex), String::new()),
                ])?;
            }
            rows.finish()?;
        }
    }
    Ok(outcome)
}

/// Returns the vertex with only the named attributes, or with all if none is named.
fn keep_only(mut vertex: Vertex, names: &[String]) -> Vertex {
    if !names.is_empty() {
        let wanted = |name: &str| names.iter().any(|n| n == name);
        vertex.attributes = vertex
            .attributes
            .into_iter()
            .filter(|(name, _)| wanted(name))
            .collect();
        vertex.user.retain(|a| wanted(&a.name));
    }
    vertex
}

/// Writes a name, then one attribute per line.
fn write_vertex(
    out: &mut dyn Write,
    vertex: &Vertex,
    schema: &Schema,
    style: Style,
) -> io::Result<()> {
    let mut lines: Vec<(String, String, String)> = vec![
        (
            "type".into(),
            vertex_type_name(schema, vertex.type_id),
            String::new(),
        ),
        (
            "version".into(),
            zone::version(vertex.version),
            String::new(),
        ),
    ];
    for (name, value) in vertex.attributes.iter() {
        lines.push((quote(name), attribute_text(value), String::new()));
    }
    for attribute in &vertex.user {
        let since = format!("  (user-defined, {})", zone::version(attribute.version));
        lines.push((
            quote(&attribute.name),
            attribute_text(&attribute.value),
            since,
        ));
    }
    let width = lines.iter().map(|l| l.0.chars().count()).max().unwrap_or(0);
    writeln!(
        out,
        "{}",
        style.bold(&Cell::from(vertex.name(schema)).table_text())
    )?;
    for (name, value, note) in lines {
        writeln!(
            out,
            "  {}  {value}{}",
            style.dim(&format!("{name:width$}")),
            style.dim(&note)
        )?;
    }
    Ok(())
}

/// Formats a value; lists stay on one line, which is easier to cut out of the output.
fn attribute_text(value: &Value) -> String {
    match value {
        Value::String(text) => Cell::from(text.as_str()).table_text(),
        _ => value_text(value),
    }
}
