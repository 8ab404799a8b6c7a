//! `esker top`: lists the vertices with the most edges.

use crate::args::TopArgs;
use crate::graph::{NameCache, edge_type_name};
use esker_model::{Error, GraphRead as _};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};

pub(crate) fn run(args: &TopArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if args.min.is_some() || args.under.is_some() {
        return Err(usage(
            "--min and --under are for sizes, not for --by degree",
        ));
    }
    let database = context
        .open(&args.target)?
        .on_behalf_of(args.principal.principal.as_ref());
    let schema = database.schema()?;
    let edge_type = args
        .edge_type
        .as_deref()
        .map(|name| schema.edge_type_id(name))
        .transpose()
        .map_err(Error::from)?;
    let degrees = database.top_degrees(edge_type, args.limit)?;
    let mut names = NameCache::default();
    names.load(&database, &schema, degrees.iter().map(|d| d.vertex))?;
    let columns = &["id", "type", "degree"];
    let mut rows = Rows::new(&mut context.out, args.format.format, context.style, columns);
    for degree in degrees {
        rows.row(vec![
            names.get(degree.vertex).into(),
            edge_type_name(&schema, degree.edge_type).into(),
            Cell::Count(degree.degree),
        ])?;
    }
    rows.finish()?;
    Ok(Outcome::Done)
}
