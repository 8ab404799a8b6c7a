//! `esker history`: prints all versions of a vertex or an edge, newest first.

use crate::args::HistoryArgs;
use crate::graph::NamedVertex;
use esker_model::{EdgeKey, Error, GraphRead as _, Value, VersionRange, VertexChange};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows};

pub(crate) fn run(args: &HistoryArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context
        .open(&args.target)?
        .on_behalf_of(args.principal.principal.as_ref());
    let schema = database.schema()?;
    let named = NamedVertex::find(&args.vertex, &database, &schema)?;
    let range = args.versions.unwrap_or(VersionRange::ALL);
    let edge = match (&args.edge_type, &args.destination) {
        (Some(edge_type), Some(destination)) => Some((
            schema.edge_type_id(edge_type).map_err(Error::from)?,
            NamedVertex::parse(destination, &database, &schema)?,
        )),
        _ => None,
    };
    let found = match edge {
        None => {
            let events = database.vertex_history(named.vertex.id, range)?;
            let mut rows = Rows::new(
                &mut context.out,
                args.format.format,
                context.style,
                &["version", "change", "attribute", "value", "archived"],
            );
            for event in events {
                let (change, attribute, value) = match event.change {
                    VertexChange::Put(attributes) => {
                        ("put", Cell::Empty, Cell::Properties(attributes))
                    }
                    VertexChange::Deleted => ("deleted", Cell::Empty, Cell::Empty),
                    VertexChange::Set(name, value) => ("set", name.into(), value_cell(value)),
                    VertexChange::Removed(name) => ("removed", name.into(), Cell::Empty),
                };
                let archived = Cell::Bool(event.archived);
                rows.row(vec![
                    Cell::Version(event.version),
                    change.into(),
                    attribute,
                    value,
                    archived,
                ])?;
            }
            rows.finish()?
        }
        Some((edge_type, destination)) => {
            schema
                .check_ends(edge_type, named.vertex.type_id, destination.vertex.type_id)
                .map_err(Error::from)?;
            let key = EdgeKey {
                source: named.vertex.id,
                edge_type,
                destination: destination.vertex.id,
            };
            let events = database.edge_history(key, range)?;
            let mut rows = Rows::new(
                &mut context.out,
                args.format.format,
                context.style,
                &["version", "change", "properties", "archived"],
            );
            for event in events {
                let change = if event.edge.deleted { "deleted" } else { "put" };
                rows.row(vec![
                    Cell::Version(event.edge.version),
                    change.into(),
                    Cell::Properties(event.edge.properties),
                    Cell::Bool(event.archived),
                ])?;
            }
            rows.finish()?
        }
    };
    if found == 0 {
        let what = match (&args.edge_type, &args.destination) {
            (Some(edge_type), Some(destination)) => {
                format!("{} -{edge_type}-> {destination}", named.name)
            }
            _ => named.name.to_string(),
        };
        let when = if args.versions.is_some() {
            " in that range"
        } else {
            ""
        };
        context.complain(&format!("nothing is known of `{what}`{when}"));
    }
    Ok(Outcome::partly_if(found == 0))
}

fn value_cell(value: Value) -> Cell {
    match value {
        Value::String(text) => Cell::Text(text),
        value => Cell::Value(value),
    }
}
