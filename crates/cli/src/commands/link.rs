//! `esker link`: inserts an edge and its inverse.

use super::write::{Change, report};
use crate::args::LinkArgs;
use crate::graph::{NamedVertex, edge_type_name};
use esker_model::{Error, GraphRead as _, Op, Properties, Version};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;

pub(crate) fn run(args: &LinkArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let schema = database.schema()?;
    let source = NamedVertex::parse(&args.source, &database, &schema)?;
    let edge_type = schema.edge_type_id(&args.edge_type).map_err(Error::from)?;
    let destination = NamedVertex::parse(&args.destination, &database, &schema)?;
    schema
        .check_ends(edge_type, source.vertex.type_id, destination.vertex.type_id)
        .map_err(Error::from)?;
    let mut properties = Properties::new();
    for assignment in &args.values {
        properties.set(assignment.name.as_str(), assignment.value()?);
    }

    let mut change = Change::new(args.at);
    let ends = [&source, &destination];
    if args.create {
        for end in ends {
            change.push(Op::EnsureVertex {
                vertex: end.vertex,
                key: end.name.key.clone(),
            });
        }
    } else {
        let ids = ends.map(|end| end.vertex.id);
        let vertices = database.read_vertices(&ids, args.at.unwrap_or(Version::MAX))?;
        for (end, vertex) in ends.into_iter().zip(vertices) {
            if vertex.is_none_or(|v| v.deleted) {
                let when = args.at.map(|at| format!(" as of {at}")).unwrap_or_default();
                let hint =
                    format!("{when}; `esker put` inserts it, or `esker link --create` both ends");
                return Err(end.missing(&hint).into());
            }
        }
    }
    change.push(Op::PutEdge {
        source: source.vertex,
        edge_type,
        destination: destination.vertex,
        properties,
    });
    let commit = change.apply(&database)?;
    let name = format!(
        "{} -{}-> {}",
        source.name,
        edge_type_name(&schema, edge_type),
        destination.name
    );
    let done = if commit.edges_created > 0 {
        "linked"
    } else {
        "updated"
    };
    report(context, args.format.format, done, &name, args.at, &commit)
}
