//! `esker schema`: prints the schema and adds types and attributes.

use crate::args::{RowFormat, SchemaArgs, SchemaCommand};
use crate::graph::vertex_type_name;
use esker_model::{GraphRead as _, GraphWrite as _, Schema, SchemaChange};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows, report};
use serde_json::json;

pub(crate) fn run(args: &SchemaArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let format = args.format;
    let Some(change) = change_of(args.command.as_ref()) else {
        let schema = database.schema()?;
        show(&schema, format, context)?;
        return Ok(Outcome::Done);
    };
    let before = database.schema()?;
    let after = database.define(std::slice::from_ref(&change))?;
    let done = if before == after {
        "unchanged"
    } else {
        "added"
    };
    let (what, name) = match &change {
        SchemaChange::VertexType { name, .. } => ("vertex type", name.clone()),
        SchemaChange::EdgeType { name, inverse, .. } => ("edge type", format!("{name}/{inverse}")),
        SchemaChange::Attribute {
            vertex_type,
            attribute,
        } => ("attribute", format!("{vertex_type}.{}", attribute.name)),
    };
    let sentence = match done {
        "added" => format!("added {what} {name}"),
        _ => format!("{what} {name} is there already, the same"),
    };
    let cells = vec![done.into(), what.into(), name.into()];
    report(context, format, &sentence, &["done", "what", "name"], cells)?;
    Ok(Outcome::Done)
}

fn change_of(command: Option<&SchemaCommand>) -> Option<SchemaChange> {
    Some(match command? {
        SchemaCommand::Show => return None,
        SchemaCommand::AddVertexType {
            name,
            parent,
            attributes,
        } => SchemaChange::VertexType {
            name: name.clone(),
            parent: parent.clone(),
            attributes: attributes.clone(),
        },
        SchemaCommand::AddEdgeType {
            name,
            inverse,
            from,
            to,
        } => SchemaChange::EdgeType {
            name: name.clone(),
            inverse: inverse.clone(),
            source: from.clone(),
            destination: to.clone(),
        },
        SchemaCommand::AddAttribute {
            vertex_type,
            attribute,
        } => SchemaChange::Attribute {
            vertex_type: vertex_type.clone(),
            attribute: attribute.clone(),
        },
    })
}

fn show(schema: &Schema, format: RowFormat, context: &mut Context) -> anyhow::Result<()> {
    match format {
        RowFormat::Json => {
            let text = serde_json::to_string_pretty(&as_json(schema))?;
            writeln!(context.out, "{text}")?;
        }
        RowFormat::Table => {
            show_vertex_types(schema, context)?;
            writeln!(context.out)?;
            show_edge_types(schema, context)?;
        }
        // Vertex and edge types share one list of rows: a vertex type has attributes and a parent, an edge type an inverse and two ends.
        RowFormat::Ndjson | RowFormat::Csv => {
            let columns = &[
                "what",
                "name",
                "parent",
                "attributes",
                "inverse",
                "from",
                "to",
            ];
            let mut rows = Rows::new(&mut context.out, format, context.style, columns);
            for (_, t) in schema.vertex_types() {
                rows.row(vec![
                    "vertex type".into(),
                    t.name.as_str().into(),
                    t.parent
                        .map_or(Cell::Empty, |p| vertex_type_name(schema, p).into()),
                    Cell::Json(attributes_json(&t.attributes), String::new()),
                    Cell::Empty,
                    Cell::Empty,
                    Cell::Empty,
                ])?;
            }
            for (_, t) in schema.edge_types() {
                rows.row(vec![
                    "edge type".into(),
                    t.name.as_str().into(),
                    Cell::Empty,
                    Cell::Empty,
                    crate::graph::edge_type_name(schema, t.inverse).into(),
                    vertex_type_name(schema, t.source).into(),
                    vertex_type_name(schema, t.destination).into(),
                ])?;
            }
            rows.finish()?;
        }
    }
    Ok(())
}

fn show_vertex_types(schema: &Schema, context: &mut Context) -> anyhow::Result<()> {
    let columns = &["vertex_type", "specialises", "predefined_attributes"];
    let mut rows = Rows::new(&mut context.out, RowFormat::Table, context.style, columns);
    for (_, t) in schema.vertex_types() {
        let attributes: Vec<_> = t
            .attributes
            .iter()
            .map(|a| format!("{}:{}", a.name, a.kind.name()))
            .collect();
        rows.row(vec![
            t.name.as_str().into(),
            t.parent
                .map_or(Cell::Empty, |p| vertex_type_name(schema, p).into()),
            attributes.join(" ").into(),
        ])?;
    }
    rows.finish()?;
    Ok(())
}

fn show_edge_types(schema: &Schema, context: &mut Context) -> anyhow::Result<()> {
    let columns = &["edge_type", "inverse", "from", "to"];
    let mut rows = Rows::new(&mut context.out, RowFormat::Table, context.style, columns);
    for (_, t) in schema.edge_types().filter(|(_, t)| t.forward) {
        rows.row(vec![
            t.name.as_str().into(),
            crate::graph::edge_type_name(schema, t.inverse).into(),
            vertex_type_name(schema, t.source).into(),
            vertex_type_name(schema, t.destination).into(),
        ])?;
    }
    rows.finish()?;
    Ok(())
}

fn attributes_json(attributes: &[esker_model::AttributeDefinition]) -> serde_json::Value {
    attributes
        .iter()
        .map(|a| json!({"name": a.name, "kind": a.kind.name()}))
        .collect()
}

fn as_json(schema: &Schema) -> serde_json::Value {
    let vertex_types: Vec<_> = schema
        .vertex_types()
        .map(|(_, t)| {
            json!({
                "name": t.name,
                "parent": t.parent.map(|p| vertex_type_name(schema, p)),
                "builtin": t.builtin,
                "attributes": attributes_json(&t.attributes),
            })
        })
        .collect();
    let edge_types: Vec<_> = schema
        .edge_types()
        .map(|(_, t)| {
            json!({
                "name": t.name,
                "inverse": crate::graph::edge_type_name(schema, t.inverse),
                "forward": t.forward,
                "from": vertex_type_name(schema, t.source),
                "to": vertex_type_name(schema, t.destination),
            })
        })
        .collect();
    json!({"vertex_types": vertex_types, "edge_types": edge_types})
}
