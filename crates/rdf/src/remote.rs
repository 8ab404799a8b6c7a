//! `SERVICE`: another endpoint's solutions. Who asks it is the host's matter; what it says is read here.

use crate::error::{Error, Result};
use crate::exec::{Context, Table, Var};
use crate::id::{Id, UNBOUND};
use crate::solutions::{Results, Solutions, read_results};
use oxrdf::Term;
use std::collections::HashMap;
use std::io::Read;

/// Asks an endpoint a query: its IRI, the text. The error is for people.
pub type Remote<'a> = dyn Fn(&str, &str) -> std::result::Result<Solutions, String> + Sync + 'a;

/// Formats that are asked for, as in `Accept`.
pub const ACCEPT: &str = "application/sparql-results+json, application/sparql-results+xml;q=0.8";

/// Reads what an endpoint answered, at most so many rows.
pub fn read_solutions(
    content_type: &str,
    from: impl Read,
    most: usize,
) -> std::result::Result<Solutions, String> {
    match read_results(content_type, from, most)? {
        Results::Solutions(solutions) => Ok(solutions),
        Results::Truth(_) => Err("it answered with a truth, not with solutions".into()),
    }
}

/// The solutions of a pattern at an endpoint, by the numbers of this query. `vars` names its variables.
pub(crate) fn ask(
    ctx: &Context<'_>,
    endpoint: &str,
    query: &str,
    vars: &HashMap<&str, Var>,
) -> Result<Table> {
    ctx.check()?;
    let Some(remote) = ctx.options.remote else {
        return Err(Error::Refused(format!(
            "SERVICE <{endpoint}>: no other endpoint may be asked here; allow it (--allow-service, or sparql.services of a \
             server), or load its data into a graph and use GRAPH"
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
    // Blank nodes of another endpoint are none of ours.
    let mut blanks: HashMap<String, Id> = HashMap::new();
    let mut number = |term: Option<&Term>| match term {
        None => UNBOUND,
        Some(Term::BlankNode(b)) => *blanks.entry(b.as_str().to_owned()).or_insert_with(|| {
            let label = ctx.fresh_label();
            ctx.number_key(&crate::dictionary::Key::Blank(&label))
        }),
        Some(term) => ctx.number(term),
    };
    let of = |(i, _): &(usize, Var)| -> Vec<Id> {
        let terms = solutions.rows.iter().map(|row| row.get(*i));
        terms.map(|t| number(t.and_then(Option::as_ref))).collect()
    };
    let values = columns.iter().map(of).collect();
    let vars = columns.into_iter().map(|c| c.1).collect();
    Ok(Table::new(vars, values, solutions.rows.len()))
}
