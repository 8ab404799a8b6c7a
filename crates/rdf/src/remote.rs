//! `SERVICE`: solutions of other endpoints. The host sends the requests; this module reads the responses.

use crate::error::{Error, Result};
use crate::exec::{Context, Table, Var};
use crate::id::{Id, UNBOUND};
use crate::solutions::{Results, Solutions, read_results};
use oxrdf::Term;
use std::collections::HashMap;
use std::io::Read;

/// Client of endpoints: sends a query to an endpoint's IRI. The error is a user message.
pub type Remote<'a> = dyn Fn(&str, &str) -> std::result::Result<Solutions, String> + Sync + 'a;

/// Value of the `Accept` header for requests.
pub const ACCEPT: &str = "application/sparql-results+json, application/sparql-results+xml;q=0.8";

/// Reads the solutions in an endpoint's response, at most `most` rows.
pub fn read_solutions(
    content_type: &str,
    from: impl Read,
    most: usize,
) -> std::result::Result<Solutions, String> {
    match read_results(content_type, from, most)? {
        Results::Solutions(solutions) => Ok(solutions),
        Results::Truth(_) => Err("it answered with a boolean, not with solutions".into()),
    }
}

/// Returns the solutions of a pattern at an endpoint, in ids of this query. `vars` maps names to variables.
pub(crate) fn request(
    ctx: &Context<'_>,
    endpoint: &str,
    query: &str,
    vars: &HashMap<&str, Var>,
) -> Result<Table> {
    ctx.check()?;
    let Some(remote) = ctx.options.remote else {
        return Err(Error::Refused(format!(
            "SERVICE <{endpoint}>: no other endpoint may be queried here; allow it \
             (--allow-service, or sparql.services of a server), or load its data into a graph and \
             use GRAPH"
        )));
    };
    let solutions = remote(endpoint, query)
        .map_err(|why| Error::Refused(format!("SERVICE <{endpoint}>: {why}")))?;
    ctx.check()?;
    let columns: Vec<(usize, Var)> = solutions
        .names
        .iter()
        .enumerate()
        .filter_map(|(i, name)| Some((i, *vars.get(name.as_str())?)))
        .collect();
    let bytes = solutions.rows.len() * columns.len() * size_of::<Id>();
    if bytes > ctx.options.memory {
        return Err(Error::Memory {
            rows: solutions.rows.len(),
            columns: columns.len(),
            limit: ctx.options.memory,
        });
    }
    // Blank nodes of another endpoint become new ones.
    let mut blanks: HashMap<String, Id> = HashMap::new();
    let mut number = |term: Option<&Term>| term.map_or(UNBOUND, |t| number(ctx, &mut blanks, t));
    let of = |(i, _): &(usize, Var)| -> Vec<Id> {
        let terms = solutions.rows.iter().map(|row| row.get(*i));
        terms.map(|t| number(t.and_then(Option::as_ref))).collect()
    };
    let values = columns.iter().map(of).collect();
    let vars = columns.into_iter().map(|c| c.1).collect();
    Ok(Table::new(vars, values, solutions.rows.len()))
}

/// Returns the id of a term of another endpoint. `blanks` has the blank nodes so far.
fn number(ctx: &Context<'_>, blanks: &mut HashMap<String, Id>, term: &Term) -> Id {
    match term {
        Term::BlankNode(b) => *blanks.entry(b.as_str().to_owned()).or_insert_with(|| {
            let label = ctx.fresh_label();
            ctx.number_key(&crate::dictionary::Key::Blank(&label))
        }),
        Term::Triple(t) => {
            let parts = [
                number(ctx, blanks, &t.subject.clone().into()),
                number(ctx, blanks, &t.predicate.clone().into()),
                number(ctx, blanks, &t.object),
            ];
            ctx.number_triple(parts)
        }
        term => ctx.number(term),
    }
}
