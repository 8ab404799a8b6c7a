//! `SERVICE`: solutions of other endpoints. If few bindings are known, they are sent along in blocks of `VALUES`; an endpoint that is a
//! variable is requested once for each of its values.

use super::graph::name_rows;
use super::rows::distinct;
use super::{Context, Options, Table, Var};
use crate::algebra::{Pos, Service, Translator};
use crate::dictionary::triple::Kind;
use crate::error::{Error, Result};
use crate::id::{Id, UNBOUND};
use crate::plan::{SENT_MAX, Slot};
use crate::quads::Dataset;
use crate::remote;
use oxrdf::{Term, Variable};
use oxsdatatypes::DateTime;
use spargebra::algebra::GraphPattern;
use spargebra::term::GroundTerm;
use spargebra::{GraphUpdateOperation, Query, Update};
use std::collections::HashMap;
use std::sync::Arc;

/// Bindings per request.
const BLOCK: usize = 200;
/// Limit of endpoints that one variable may name.
const ENDPOINTS_MAX: usize = 64;

impl Service {
    /// Returns the solutions of the pattern, to be joined with the known ones.
    pub(super) fn run(
        &self,
        ctx: &Context<'_>,
        slot: &Slot,
        known: Option<&Table>,
    ) -> Result<Table> {
        let mut table = match self.endpoint {
            Pos::Const(id) => request_endpoint(ctx, self, slot, id, known)?,
            Pos::Var(var) => {
                let ids = match endpoints(ctx, var, known) {
                    Err(_) if self.silent => return Ok(Table::unit()),
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
                    let table = request_endpoint(ctx, self, slot, id, theirs.as_ref())?;
                    all.append(name_rows(table, var, id));
                    ctx.fits_table(&all)?;
                }
                all
            }
        };
        // Bindings that EXISTS has substituted.
        for (var, id) in &self.bound {
            if table.column(*var).is_some() {
                table = name_rows(table, *var, *id);
            }
        }
        Ok(table)
    }
}

/// Returns the values of a variable that names endpoints.
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

fn request_endpoint(
    ctx: &Context<'_>,
    s: &Service,
    slot: &Slot,
    endpoint: Id,
    known: Option<&Table>,
) -> Result<Table> {
    match request_with_bindings(ctx, s, slot, endpoint, known) {
        // One solution without bindings.
        Err(e) if s.silent && !matches!(e, Error::Stopped(_)) => Ok(Table::unit()),
        other => other,
    }
}

fn request_with_bindings(
    ctx: &Context<'_>,
    s: &Service,
    slot: &Slot,
    endpoint: Id,
    known: Option<&Table>,
) -> Result<Table> {
    let Some(Term::NamedNode(endpoint)) = ctx.term(endpoint) else {
        let shown = ctx.show_term(endpoint);
        return Err(Error::Refused(format!(
            "SERVICE {shown}: an endpoint is named by an IRI"
        )));
    };
    let endpoint = endpoint.as_str();
    let Some(sent) = known
        .filter(|_| ctx.options.optimise && ctx.options.send_bindings)
        .and_then(|t| combinations(ctx, s, t))
    else {
        ctx.chose(slot, || format!("ask <{endpoint}>"));
        return send_request(ctx, s, endpoint, &s.inner);
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
    ctx.chose(slot, || {
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
        all.append(send_request(ctx, s, endpoint, &pattern)?);
        ctx.fits_table(&all)?;
    }
    Ok(all)
}

/// Returns the distinct known bindings of the pattern's variables, if there are few. Blank nodes have no meaning at other endpoints, so
/// bindings with blank nodes match nothing.
fn combinations(ctx: &Context<'_>, s: &Service, known: &Table) -> Option<Table> {
    let shared: Vec<Var> = s
        .vars
        .iter()
        .map(|(_, v)| *v)
        .filter(|v| known.is_always_bound(*v))
        .collect();
    if shared.is_empty() {
        return None;
    }
    let each = distinct(known.clone().project(&shared));
    if each.len() > SENT_MAX {
        return None;
    }
    let blank = |id: Id| has_blank(ctx, id);
    let rows: Vec<u32> = (0..each.len() as u32)
        .filter(|r| {
            let row = each.row(*r as usize);
            shared.iter().all(|v| !blank(row.get(*v)))
        })
        .collect();
    Some(each.select(&rows))
}

fn ground(ctx: &Context<'_>, id: Id) -> Option<GroundTerm> {
    ctx.term(id)?.try_into().ok()
}

/// Returns whether a term is a blank node or has one as a part, or is unknown.
fn has_blank(ctx: &Context<'_>, id: Id) -> bool {
    match ctx.triple(id) {
        Some(parts) => parts.into_iter().any(|part| has_blank(ctx, part)),
        None => ctx
            .with_parts(id, |p| p.kind())
            .is_none_or(|kind| kind == Kind::Blank),
    }
}

/// Returns the query text for an endpoint.
fn text_of(pattern: &GraphPattern) -> String {
    let query = Query::Select {
        dataset: None,
        pattern: pattern.clone(),
        base_iri: None,
    };
    query.to_string()
}

/// Returns the SERVICE requests of an update, as endpoint and query, so that the host can send them before the update runs. Each is to be
/// requested with its whole pattern then (`Options::send_bindings`).
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

/// Sends one request, or returns the cached result of an equal one.
fn send_request(
    ctx: &Context<'_>,
    s: &Service,
    endpoint: &str,
    pattern: &GraphPattern,
) -> Result<Table> {
    let text = text_of(pattern);
    let key = (endpoint.to_owned(), text);
    if let Some(known) = ctx.service_results.borrow().get(&key) {
        return Ok(known.clone());
    }
    let vars: HashMap<&str, Var> = s.vars.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    let table = remote::request(ctx, endpoint, &key.1, &vars)?;
    ctx.service_results.borrow_mut().insert(key, table.clone());
    Ok(table)
}
