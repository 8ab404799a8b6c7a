//! Errors for vertices that do not exist, with a similar name or the reason.

use crate::graph::NamedVertex;
use esker::Database;
use esker_model::namespace::{Name, NamePath, Namespace as _, display, parse_display};
use esker_model::schema::nearest;
use esker_model::{Error, GraphRead as _, Schema, VertexSelect};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Vertices and entries of a directory whose names are compared.
const NAMES_MAX: usize = 50_000;

/// Returns the error that a vertex does not exist. It names a similar vertex, or says that a file is known to the namespace alone.
pub(crate) fn missing(
    named: &NamedVertex,
    hint: &str,
    database: &Database,
    schema: &Schema,
) -> Error {
    // The error is about the vertex; a further failure says nothing about it.
    let more = explain(named, database, schema).unwrap_or_default();
    named.missing(&format!("{hint}{}", more.unwrap_or_default()))
}

fn explain(
    named: &NamedVertex,
    database: &Database,
    schema: &Schema,
) -> esker_model::Result<Option<String>> {
    let key = named.name.key.as_str();
    let path = Some(key)
        .filter(|key| key.starts_with('/'))
        .and_then(parse_display)
        .and_then(|bytes| NamePath::parse(&bytes).ok());
    if let Some(path) = &path
        && database.stat(database.principal(), path, false).is_ok()
    {
        let text = "; the file exists in the namespace, and no recorded run has read or written it";
        return Ok(Some(text.into()));
    }
    // Two long paths differ in their last parts most often; others are compared whole.
    let (directory, last) = match key.rsplit_once('/') {
        Some((directory, last)) if path.is_some() => (Some(directory), last),
        _ => (None, key),
    };
    let mut names = BTreeSet::new();
    let mut scanned = 0;
    database.scan_vertices(&VertexSelect::of(named.vertex.type_id), &mut |vertex| {
        scanned += 1;
        let name = match directory {
            None => Some(vertex.key.as_str()),
            Some(directory) => vertex
                .key
                .strip_prefix(directory)
                .and_then(|rest| rest.strip_prefix('/'))
                .filter(|rest| !rest.contains('/')),
        };
        names.extend(name.map(str::to_owned));
        if scanned == NAMES_MAX {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    if let Some(path) = &path {
        let listed = database.list(
            database.principal(),
            &path.parent(),
            None,
            &mut |_, entry| {
                names.insert(text(&entry.name));
                if names.len() >= NAMES_MAX {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            },
        );
        match listed {
            Ok(()) | Err(Error::File(_)) => {}
            Err(e) => return Err(e),
        }
    }
    let near = nearest(last, names.iter().map(String::as_str));
    Ok(near.map(|near| {
        let key = match directory {
            Some(directory) => format!("{directory}/{near}"),
            None => near,
        };
        format!(
            "; did you mean `{}:{key}`?",
            schema.prefix(named.vertex.type_id)
        )
    }))
}

fn text(name: &Name) -> String {
    display(name.as_bytes()).to_string()
}
