//! `esker share`: shows a lineage to users from whom permissions hide it, lists shares and ends them.

use crate::args::{RowFormat, ShareArgs};
use crate::graph::{NamedVertex, unnamed};
use crate::name_service::{group_named, user_named};
use crate::near;
use crate::times;
use esker::Database;
use esker_model::sharing::{ShareId, ShareRequest, SharedLineage, SharingTerms};
use esker_model::{Error, GraphRead as _, Schema, Version, VertexId};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{self, Cell, Rows};
use esker_terminal::units::counted;
use std::io;

const COLUMNS: &[&str] = &[
    "id",
    "vertex",
    "direction",
    "with",
    "until",
    "by",
    "made",
    "items",
];

pub(crate) fn run(args: &ShareArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context
        .open(&args.target)?
        .on_behalf_of(args.principal.principal.as_ref());
    match (args.revoke, &args.vertex) {
        (Some(id), _) => revoke(id, args.format.format, &database, context),
        (None, Some(vertex)) => share(vertex, args, &database, context),
        (None, None) => list(args.format.format, &database, context),
    }
}

fn share(
    vertex: &str,
    args: &ShareArgs,
    database: &Database,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let (users, groups) = grantees(&args.with)?;
    let schema = database.schema()?;
    let named = NamedVertex::find(vertex, database, &schema)?;
    let until = args.until.or(args.period.map(times::hence));
    let request = ShareRequest {
        terms: SharingTerms {
            root: named.vertex.id,
            impact: args.impact,
            users,
            groups,
            until_millis: until.map(Version::millis),
        },
        depth: args.depth,
        made_by: args.made_by.clone(),
        used: args.used.clone(),
    };
    let share = match database.share(request, &context.interrupt) {
        Err(Error::NoVertex { hint, .. }) => {
            return Err(near::missing(&named, &hint, database, &schema).into());
        }
        share => share?,
    };
    let sentence = format!(
        "share {} opens {} to {}{}",
        share.id,
        counted(share.items, "file or object", "files and objects"),
        with(&share.terms),
        match share.terms.until_millis {
            Some(until) => format!(" until {}", Version::new(until, 0)),
            None => String::new(),
        }
    );
    let cells = cells(&share, database, &schema)?;
    output::report(context, args.format.format, &sentence, COLUMNS, cells)?;
    Ok(Outcome::Done)
}

fn revoke(
    id: ShareId,
    format: RowFormat,
    database: &Database,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let Some(share) = database.revoke_share(id)? else {
        return Err(Error::Invalid(format!(
            "no share {id}: `esker share TARGET --list` shows those that you may end"
        ))
        .into());
    };
    let sentence = format!("share {id} ended; it was for {}", with(&share.terms));
    let cells = cells(&share, database, &*database.schema()?)?;
    output::report(context, format, &sentence, COLUMNS, cells)?;
    Ok(Outcome::Done)
}

fn list(format: RowFormat, database: &Database, context: &mut Context) -> anyhow::Result<Outcome> {
    let shares = database.shares()?;
    let schema = database.schema()?;
    let mut rows = Rows::new(&mut context.out, format, context.style, COLUMNS);
    for share in shares {
        rows.row(cells(&share, database, &schema)?)?;
    }
    rows.finish()?;
    Ok(Outcome::Done)
}

fn cells(
    share: &SharedLineage,
    database: &Database,
    schema: &Schema,
) -> esker_model::Result<Vec<Cell>> {
    let terms = &share.terms;
    let direction = if terms.impact { "impact" } else { "lineage" };
    let until = terms.until_millis.map(|until| Version::new(until, 0));
    Ok(vec![
        share.id.to_string().into(),
        name(terms.root, database, schema)?.into(),
        direction.into(),
        with(terms).into(),
        until.map_or(Cell::Empty, Cell::Version),
        share.by.map_or(Cell::Empty, |uid| uid.to_string().into()),
        Cell::Version(share.made),
        Cell::Count(share.items),
    ])
}

/// Returns the name of a vertex as the principal sees it, else its id.
fn name(id: VertexId, database: &Database, schema: &Schema) -> esker_model::Result<String> {
    let found = database.read_vertices(&[id], Version::MAX)?.pop().flatten();
    Ok(found.map_or_else(|| unnamed(id), |v| v.name(schema)))
}

/// Formats users and groups as `--with` takes them.
fn with(terms: &SharingTerms) -> String {
    let users = terms.users.iter().map(ToString::to_string);
    let groups = terms.groups.iter().map(|id| format!("@{id}"));
    users.chain(groups).collect::<Vec<_>>().join(",")
}

/// Returns the numbers of users and groups.
fn grantees(names: &[String]) -> anyhow::Result<(Vec<i64>, Vec<i64>)> {
    let (mut users, mut groups) = (Vec::new(), Vec::new());
    for name in names {
        let name = name.trim();
        match name.strip_prefix('@') {
            Some(group) => groups.push(number(group, "group", group_named)?),
            None => users.push(number(name, "user", user_named)?),
        }
    }
    Ok((users, groups))
}

/// Returns the number of a user or group that is given by number or by name.
fn number(
    name: &str,
    what: &str,
    find: impl FnOnce(&str) -> io::Result<Option<u32>>,
) -> anyhow::Result<i64> {
    if let Ok(number) = name.parse::<u32>() {
        return Ok(number.into());
    }
    match find(name) {
        Ok(Some(number)) => Ok(number.into()),
        Ok(None) => Err(usage(format!(
            "--with: no {what} `{name}` on this machine: give a name that `getent` knows, or a number"
        ))),
        Err(e) => Err(usage(format!(
            "--with: {what} `{name}` could not be looked up ({e}): give its number"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_numbers_or_names() {
        let names = ["1001", " root", "@100", "@root"].map(str::to_owned);
        assert_eq!(grantees(&names).unwrap(), (vec![1001, 0], vec![100, 0]));
        for bad in ["", "@", "-1", "nobody of this name", "--help"] {
            let refused = grantees(&[bad.to_owned()]).unwrap_err().to_string();
            assert!(refused.starts_with("--with: "), "{refused}");
        }
    }
}
