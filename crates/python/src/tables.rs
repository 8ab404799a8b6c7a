//! Searches, scans and differences as columns.

use crate::cancel::work;
use crate::columns::{Columns, PropertyColumns, Table, json_of, of_mixed, of_values};
use crate::database::{
    CHUNK, all_vertices, edge_type_name, filter_of, names_of, object_filter, vertex_of,
    vertex_type_name,
};
use crate::error::invalid;
use crate::value::as_of;
use esker::Database;
use esker_model::filter::{Prepared, VertexFields};
use esker_model::object::{Find, ID_ATTRIBUTES, ObjectRead as _};
use esker_model::{
    Cancel as _, DiffSelect, Difference, Edge, EdgeSelect, EdgeTypeId, Flow, GraphRead as _,
    Result, Value, Versions, Vertex, VertexId, VertexSelect,
};
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Implements the method `Core.edges`.
pub(crate) fn edges(
    py: Python<'_>,
    database: &Database,
    names: Option<Vec<String>>,
    types: Vec<String>,
    when: Option<&str>,
    limit: Option<usize>,
) -> PyResult<Columns> {
    let version = as_of(py, when)?;
    let (schema, edges, names) = work(py, |signals| {
        let schema = database.schema()?;
        let wanted: Vec<EdgeTypeId> = types
            .iter()
            .map(|t| schema.edge_type_id(t))
            .collect::<std::result::Result<_, _>>()?;
        let forward = || {
            schema
                .edge_types()
                .filter(|(_, t)| t.forward)
                .map(|(id, _)| id)
                .collect()
        };
        let (frontier, types) = match names {
            Some(names) => {
                let refs: Result<Vec<_>> = names
                    .iter()
                    .map(|n| vertex_of(database, &schema, n))
                    .collect();
                (refs?.into_iter().map(|(_, v)| v.id).collect(), wanted)
            }
            None => (
                all_vertices(database, &schema, version, signals)?,
                if wanted.is_empty() { forward() } else { wanted },
            ),
        };
        let select = EdgeSelect {
            types,
            versions: Versions::AsOf(version),
            properties: true,
            after: None,
        };
        let (mut edges, limit) = (Vec::new(), limit.unwrap_or(usize::MAX));
        for chunk in frontier.chunks(CHUNK) {
            database.scan_edges(chunk, &select, &mut |_, edge| {
                if edges.len() >= limit || signals.cancelled() {
                    return ControlFlow::Break(());
                }
                edges.push(edge);
                ControlFlow::Continue(())
            })?;
            if edges.len() >= limit || signals.cancelled() {
                break;
            }
        }
        let ids = edges
            .iter()
            .flat_map(|e: &Edge| [e.key.source, e.key.destination]);
        let names = names_of(database, &schema, ids)?;
        Ok((schema, edges, names))
    })?;
    let mut table = Table::default();
    let mut properties = PropertyColumns::default();
    let name = |id: &VertexId| names.get(id);
    let (mut from, mut kinds, mut to, mut versions) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for e in &edges {
        from.push(name(&e.key.source));
        kinds.push(Some(edge_type_name(&schema, e.key.edge_type)));
        to.push(name(&e.key.destination));
        versions.push(Some(e.version));
        properties.push(e.properties.iter());
    }
    table
        .texts("source", &from)
        .texts("type", &kinds)
        .texts("destination", &to)
        .versions("version", &versions);
    properties.add_to(&mut table, "property:");
    table.finish(py)
}

/// Implements the method `Core.vertices`.
pub(crate) fn vertices(
    py: Python<'_>,
    database: &Database,
    type_name: &str,
    filter: &str,
    when: Option<&str>,
    select: Option<Vec<String>>,
    limit: Option<usize>,
    deleted: bool,
) -> PyResult<Columns> {
    let version = as_of(py, when)?;
    let (schema, found) = work(py, |signals| {
        let schema = database.schema()?;
        let type_id = schema.vertex_type_id(type_name)?;
        let expr = filter_of(filter)?;
        expr.check_kinds_of(&schema, type_id)?;
        let expr = expr.with_vertex_types(&schema)?;
        let prepared = Prepared::new(&expr);
        let select = VertexSelect {
            as_of: version,
            deleted,
            ..VertexSelect::of(type_id)
        };
        let (mut found, limit) = (Vec::new(), limit.unwrap_or(usize::MAX));
        database.scan_vertices(&select, &mut |vertex| {
            if found.len() >= limit || signals.cancelled() {
                return ControlFlow::Break(());
            }
            if prepared.matches(&VertexFields::new(&vertex, &schema)) {
                found.push(vertex);
            }
            ControlFlow::Continue(())
        })?;
        Ok((schema, found))
    })?;
    let mut table = Table::default();
    let each = || found.iter();
    let ids: Vec<_> = each().map(|v| Some(v.name(&schema))).collect();
    let types: Vec<_> = each()
        .map(|v| Some(vertex_type_name(&schema, v.type_id)))
        .collect();
    let versions: Vec<_> = each().map(|v| Some(v.version)).collect();
    table
        .texts("id", &ids)
        .texts("type", &types)
        .versions("version", &versions);
    if deleted {
        let gone: arrow_array::BooleanArray = each().map(|v| Some(v.deleted)).collect();
        table.add("deleted", Arc::new(gone));
    }
    if let Some(names) = select {
        let shown = ["id", "type", "version"];
        for name in names.iter().filter(|n| !shown.contains(&n.as_str())) {
            let cell = |v: &Vertex| match name.as_str() {
                "key" => Some(Value::String(v.key.clone())),
                name => v.attribute(name).cloned(),
            };
            table.add(name, of_mixed(&each().map(cell).collect::<Vec<_>>()));
        }
    } else {
        let mut properties = PropertyColumns::default();
        for v in &found {
            let user = v.user.iter();
            let user = user.filter(|a| v.attributes.get(&a.name).is_none());
            let user = user.map(|a| (a.name.as_str(), &a.value));
            properties.push(v.attributes.iter().chain(user));
        }
        properties.add_to(&mut table, "attribute:");
    }
    table.finish(py)
}

/// Implements the method `Core.objects`.
pub(crate) fn objects(
    py: Python<'_>,
    database: &Database,
    filter: &str,
    select: Option<Vec<String>>,
    limit: Option<u64>,
    lenient: bool,
) -> PyResult<Columns> {
    let refuse = |report: &esker_model::object::FindReport| {
        if lenient || report.unknown.is_empty() {
            return Ok(());
        }
        let each = report.unknown.iter().map(|(name, near)| match near {
            Some((near, n)) => {
                format!("unknown tag `{name}`, did you mean `{near}` ({n} objects)?")
            }
            None => format!("unknown tag `{name}`: no object has it"),
        });
        Err(invalid(each.collect::<Vec<_>>().join("\n")))
    };
    let parsed = |text: &str| {
        if lenient {
            filter_of(text)
        } else {
            object_filter(database, text)
        }
    };
    let mut table = Table::default();
    if let Some(names) = select {
        let names: Vec<String> = names.into_iter().filter(|n| n != "id").collect();
        let found = work(py, |signals| {
            let find = Find {
                select: Some(names),
                limit,
                ..Find::all(parsed(filter)?)
            };
            let found = database.find_columns(&find, signals)?;
            refuse(&found.report)?;
            Ok(found)
        })?;
        let ids: Vec<_> = found.ids.iter().map(|id| Some(id.to_string())).collect();
        table.texts("id", &ids);
        for (name, values) in found.columns {
            table.add(name, of_values(values));
        }
    } else {
        let (ids, properties) = work(py, |signals| {
            let find = Find {
                limit,
                ..Find::all(parsed(filter)?)
            };
            let (mut ids, mut properties) = (Vec::new(), PropertyColumns::default());
            let report = database.find(&find, signals, &mut |found| {
                ids.push(Some(found.id.to_string()));
                let first = ID_ATTRIBUTES
                    .iter()
                    .filter_map(|n| Some((*n, found.attributes.get(n)?)));
                let others = found
                    .attributes
                    .iter()
                    .filter(|(n, _)| !ID_ATTRIBUTES.contains(n));
                let tags = found
                    .tags
                    .iter()
                    .filter(|(n, _)| found.attributes.get(n).is_none());
                properties.push(first.chain(others).chain(tags));
                ControlFlow::Continue(())
            })?;
            refuse(&report)?;
            Ok((ids, properties))
        })?;
        table.texts("id", &ids);
        properties.add_to(&mut table, "tag:");
    }
    table.finish(py)
}

/// Implements the method `Core.diff`.
pub(crate) fn diff(
    py: Python<'_>,
    database: &Database,
    before: &str,
    after: Option<&str>,
) -> PyResult<Columns> {
    let (before, after) = (as_of(py, Some(before))?, as_of(py, after)?);
    let (schema, found, names) = work(py, |signals| {
        if before > after {
            return Err(invalid(format!(
                "{before} is later than {after}: give the earlier time first"
            )));
        }
        let mut found = Vec::new();
        database.diff(
            &DiffSelect::between(before, after),
            &mut |difference| -> Flow {
                found.push(difference);
                if signals.cancelled() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        )?;
        let schema = database.schema()?;
        let ends = found.iter().filter_map(|d| match d {
            Difference::Edge(before, after) => before.as_ref().or(after.as_ref()),
            Difference::Vertex(..) => None,
        });
        let names = names_of(
            database,
            &schema,
            ends.flat_map(|e| [e.key.source, e.key.destination]),
        )?;
        Ok((schema, found, names))
    })?;
    let mut columns: [Vec<Option<String>>; 7] = Default::default();
    let all = |v: &Vertex| {
        let mut all = v.attributes.clone();
        for a in &v.user {
            all.set(a.name.as_str(), a.value.clone());
        }
        json_of(&all)
    };
    for difference in &found {
        let row = match difference {
            Difference::Vertex(b, a) => {
                let Some(one) = a.as_ref().or(b.as_ref()) else {
                    continue;
                };
                let kind = vertex_type_name(&schema, one.type_id);
                let change = change_of(b.is_some(), a.is_some());
                [
                    Some(change),
                    Some("vertex".to_owned()),
                    Some(one.name(&schema)),
                    Some(kind),
                    None,
                    b.as_ref().map(all),
                    a.as_ref().map(all),
                ]
            }
            Difference::Edge(b, a) => {
                let Some(one) = a.as_ref().or(b.as_ref()) else {
                    continue;
                };
                let name = |id| names.get(&id).cloned();
                let json = |e: &Edge| json_of(&e.properties);
                let kind = edge_type_name(&schema, one.key.edge_type);
                let change = change_of(b.is_some(), a.is_some());
                [
                    Some(change),
                    Some("edge".to_owned()),
                    name(one.key.source),
                    Some(kind),
                    name(one.key.destination),
                    b.as_ref().map(json),
                    a.as_ref().map(json),
                ]
            }
        };
        columns
            .iter_mut()
            .zip(row)
            .for_each(|(column, cell)| column.push(cell));
    }
    let mut table = Table::default();
    for (name, column) in [
        "change",
        "kind",
        "id",
        "type",
        "destination",
        "before",
        "after",
    ]
    .iter()
    .zip(&columns)
    {
        table.texts(name, column);
    }
    table.finish(py)
}

fn change_of(before: bool, after: bool) -> String {
    match (before, after) {
        (false, _) => "added",
        (true, false) => "removed",
        (true, true) => "changed",
    }
    .to_owned()
}
