//! `esker delete`: deletes a vertex or an edge, from now on or from a given time on.

use super::write::{Change, report};
use crate::args::DeleteArgs;
use crate::graph::{NamedVertex, edge_type_name};
use crate::near;
use esker_model::{Error, GraphRead as _, Op};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;

pub(crate) fn run(args: &DeleteArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let schema = database.schema()?;
    let named = NamedVertex::parse(&args.vertex, &database, &schema)?;
    let mut change = Change::new(args.at);
    let name = if let (Some(edge_type), Some(destination)) = (&args.edge_type, &args.destination) {
        let edge_type = schema.edge_type_id(edge_type).map_err(Error::from)?;
        let destination = NamedVertex::parse(destination, &database, &schema)?;
        change.push(Op::DeleteEdge {
            source: named.vertex,
            edge_type,
            destination: destination.vertex,
        });
        let edge_type = edge_type_name(&schema, edge_type);
        format!("{} -{edge_type}-> {}", named.name, destination.name)
    } else {
        change.push(Op::DeleteVertex {
            vertex: named.vertex,
        });
        named.name.to_string()
    };
    let commit = match change.apply(&database) {
        Err(error) if matches!(error.downcast_ref(), Some(Error::NoVertex { .. })) => {
            return Err(near::missing(&named, "", &database, &schema).into());
        }
        commit => commit?,
    };
    report(
        context,
        args.format.format,
        "deleted",
        &name,
        args.at,
        &commit,
    )
}
