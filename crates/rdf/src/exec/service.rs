//! `SERVICE`: what other endpoints say. Where few solutions are known before, their terms are sent along, in blocks of `VALUES`;
//! an endpoint that is a variable is asked once for each of its values.

use super::rows::distinct;
use super::{Context, Options, Table, Var, name_rows};
use crate::dictionary::{Head, Parts};
use crate::error::{Error, Result};
use crate::id::{Id, UNBOUND};
use crate::plan::{Pos, Service, Translator};
use crate::quads::Dataset;
use crate::remote;
use oxrdf::{NamedNode, Term, Variable};
use oxsdatatypes::DateTime;
use spargebra::algebra::GraphPattern;
use spargebra::term::GroundTerm;
use spargebra::{GraphUpdateOperation, Query, Update};
use std::collections::HashMap;
use std::sync::Arc;

/// Known solutions up to which they are sent along.
pub(super) const SENT_MAX: usize = 1_000;
/// Of them, in one request.
const BLOCK: usize = 200;
/// Endpoints that one variable may name.
const ENDPOINTS_MAX: usize = 64;

/// The solutions of a pattern elsewhere, which are then joined with those that are known.
pub(crate) fn eval(ctx: &Context<'_>, s: &Service, known: Option<&Table>) -> Result<Table> {
    let table = match s.endpoint {
        Pos::Const(id) => one(ctx, s, id, known)?,
        Pos::Var(var) => {
            let ids = match endpoints(ctx, var, known) {
                Err(_) if s.silent => return Ok(Table::unit()),
                ids => ids?,
            };
            let mut all = Table::empty(vec![var]);
            for id in ids {
                let theirs = known.and_then(|t| {
                    let rows = |c: &[Id]| {
                        (0..c.len() as u32)
                            .filter(|r| c[*r as usize] == id)
                            .collect()
                    };
                    let rows: Vec<u32> = t.column(var).map(rows)?;
                    Some(t.select(&rows))
                });
                let table = one(ctx, s, id, theirs.as_ref())?;
                all.append(name_rows(table, var, id));
                ctx.fits_table(&all)?;
            }
            all
        }
    };
    // What EXISTS put in the place of variables.
    let mut table = table;
    for (var, id) in &s.bound {
        if table.column(*var).is_some() {
            table = name_rows(table, *var, *id);
        }
    }
    Ok(table)
}

/// The values of a variable that names endpoints.
fn endpoints(ctx: &Context<'_>, var: Var, known: Option<&Table>) -> Result<Vec<Id>> {
    let column = known.and_then(|t| t.column(var)).unwrap_or(&[]);
    let mut ids = column.to_vec();
    ids.sort_unstable();
    ids.dedup();
    if ctx.is_view() {
        ids.sort_by(|a, b| super::sort::by_term(ctx, *a, *b));
    }
    if known.is_some_and(|t| !t.is_empty()) && (ids.is_empty() || ids.contains(&UNBOUND)) {
        let name = ctx.name(var);
        return Err(Error::Refused(format!(
            "SERVICE {name}: the variable has no value; bind it before, in the same group, by a pattern or by VALUES"
        )));
    }
    if known.is_none() {
        let name = ctx.name(var);
        return Err(Error::Refused(format!(
            "SERVICE {name}: nothing in its group says which endpoint that is; bind the variable in the same group, by a pattern or by \
             VALUES"
        )));
    }
    if ids.len() > ENDPOINTS_MAX {
        return Err(Error::Refused(format!(
            "SERVICE {}: it has {} values, and one query asks {ENDPOINTS_MAX} endpoints at most; restrict it",
            ctx.name(var),
            ids.len()
        )));
    }
    Ok(ids)
}

fn one(ctx: &Context<'_>, s: &Service, endpoint: Id, known: Option<&Table>) -> Result<Table> {
    match asked(ctx, s, endpoint, known) {
        // One solution that binds nothing.
        Err(e) if s.silent && !matches!(e, Error::Stopped(_)) => Ok(Table::unit()),
        other => other,
    }
}

fn asked(ctx: &Context<'_>, s: &Service, endpoint: Id, known: Option<&Table>) -> Result<Table> {
    let Some(Term::NamedNode(endpoint)) = ctx.term(endpoint) else {
        let shown = super::bgp::show_term(ctx, endpoint);
        return Err(Error::Refused(format!(
            "SERVICE {shown}: an endpoint is named by an IRI"
        )));
    };
    let endpoint = endpoint.as_str();
    let Some(sent) = known
        .filter(|_| ctx.options.optimise && ctx.options.tells)
        .and_then(|t| combinations(ctx, s, t))
    else {
        ctx.note(|| format!("ask <{endpoint}>"));
        return whole(ctx, s, endpoint, &s.inner);
    };
    let sent = if ctx.is_view() {
        super::sort::order_by(ctx, &sent, &[], sent.vars(), None)?
    } else {
        sent
    };
    let mut all = Table::empty(s.vars.iter().map(|(_, v)| *v).collect());
    let variables: Vec<Variable> = sent
        .vars()
        .iter()
        .filter_map(|v| s.vars.iter().find(|(_, n)| n == v))
        .map(|(name, _)| Variable::new_unchecked(name))
        .collect();
    let rows: Vec<Vec<Option<GroundTerm>>> = sent
        .rows()
        .map(|row| {
            sent.vars()
                .iter()
                .map(|v| ground(ctx, row.get(*v)))
                .collect()
        })
        .collect();
    ctx.note(|| {
        format!(
            "ask <{endpoint}> with {} solutions, in {} requests",
            rows.len(),
            rows.len().div_ceil(BLOCK)
        )
    });
    for block in rows.chunks(BLOCK) {
        let pattern = GraphPattern::Join {
            left: Box::new(s.inner.as_ref().clone()),
            right: Box::new(GraphPattern::Values {
                variables: variables.clone(),
                bindings: block.to_vec(),
            }),
        };
        all.append(whole(ctx, s, endpoint, &pattern)?);
        ctx.fits_table(&all)?;
    }
    Ok(all)
}

/// What is known of the pattern's variables, if that is little: each combination once. Blank nodes mean nothing elsewhere, so
/// solutions with them find nothing there.
fn combinations(ctx: &Context<'_>, s: &Service, known: &Table) -> Option<Table> {
    let shared: Vec<Var> = s
        .vars
        .iter()
        .map(|(_, v)| *v)
        .filter(|v| known.is_certain(*v))
        .collect();
    if shared.is_empty() {
        return None;
    }
    let each = distinct(known.clone().project(&shared));
    if each.len() > SENT_MAX {
        return None;
    }
    let blank = |id: Id| ctx.with_parts(id, |p| matches!(p, Parts::Stored(Head::Blank, _)));
    let rows: Vec<u32> = (0..each.len() as u32)
        .filter(|r| {
            let row = each.row(*r as usize);
            shared.iter().all(|v| blank(row.get(*v)) == Some(false))
        })
        .collect();
    Some(each.select(&rows))
}

fn ground(ctx: &Context<'_>, id: Id) -> Option<GroundTerm> {
    match ctx.term(id)? {
        Term::NamedNode(n) => Some(GroundTerm::NamedNode(n)),
        Term::Literal(l) => Some(GroundTerm::Literal(l)),
        Term::BlankNode(_) => None,
    }
}

/// The query that an endpoint is asked.
fn text_of(pattern: &GraphPattern) -> String {
    let query = Query::Select {
        dataset: None,
        pattern: pattern.clone(),
        base_iri: None,
    };
    query.to_string()
}

/// What an update asks other endpoints: endpoint and query of each, so that the host can ask before the update is done. Each is
/// to be asked its whole pattern then (`Options::tells`).
pub fn services_of(update: &Update) -> Result<Vec<(String, String)>> {
    let (data, options) = (Dataset::default(), Options::new(DateTime::MIN, 0));
    let ctx = Context::new(&data, &options, None);
    for operation in &update.operations {
        if let GraphUpdateOperation::DeleteInsert { pattern, .. } = operation {
            Translator::new(&ctx).node(pattern)?;
        }
    }
    let services = ctx.services.borrow();
    let of = |s: &Arc<Service>| {
        match s.endpoint {
        Pos::Const(id) => match ctx.term(id) {
            Some(Term::NamedNode(n)) => Ok((n.into_string(), text_of(&s.inner))),
            _ => Err(Error::Refused("SERVICE: an endpoint is named by an IRI".into())),
        },
        Pos::Var(_) => Err(Error::Refused(
            "SERVICE with a variable, in an update that a server does: name the endpoint, or query first".into(),
        )),
    }
    };
    services.iter().map(of).collect()
}

/// One request, or what came of the same one before.
fn whole(ctx: &Context<'_>, s: &Service, endpoint: &str, pattern: &GraphPattern) -> Result<Table> {
    let text = text_of(pattern);
    let key = (endpoint.to_owned(), text);
    if let Some(known) = ctx.asked.borrow().get(&key) {
        return Ok(known.clone());
    }
    let vars: HashMap<&str, Var> = s.vars.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    let table = remote::ask(ctx, endpoint, &key.1, &vars)?;
    ctx.asked.borrow_mut().insert(key, table.clone());
    Ok(table)
}

/// The endpoint as people read it.
pub(crate) fn show(ctx: &Context<'_>, endpoint: Pos) -> String {
    match endpoint {
        Pos::Var(v) => ctx.name(v),
        Pos::Const(id) => match ctx.term(id) {
            Some(Term::NamedNode(n)) => NamedNode::to_string(&n),
            other => other.map_or_else(|| "?".into(), |t| t.to_string()),
        },
    }
}
