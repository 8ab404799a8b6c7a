//! Queries: from text to answer.

use crate::algebra::{Node, Translator};
use crate::error::Result;
use crate::exec::{Context, Options, Table, Var, by_term, run, sort_triples};
use crate::id::{Id, UNBOUND};
use crate::plan::{PlanNode, Required, plan, show};
use crate::quads::{Dataset, Graph};
use crate::syntax;
use crate::template::{Labels, TemplateTerm};
use oxrdf::{NamedNode, NamedOrBlankNode, Term};
use spargebra::Query;
use spargebra::algebra::{GraphPattern, QueryDataset};
use spargebra::term::TriplePattern;
use std::collections::HashSet;
use std::sync::Arc;

/// Dataset of a query, if the request specifies it instead of the query text.
#[derive(Debug, Clone, Default)]
pub struct Graphs {
    /// IRIs of the graphs that form the default graph.
    pub default: Vec<String>,
    /// IRIs of the graphs that `GRAPH` may match.
    pub named: Vec<String>,
}

/// Answer of a query.
#[derive(Debug)]
pub struct Answer<'a> {
    ctx: Context<'a>,
    /// Result of the query.
    pub found: Found,
    plan: Option<PlanNode>,
}

/// Result of a query, by its form.
#[derive(Debug)]
pub enum Found {
    /// `SELECT`: names of the variables, and solutions.
    Solutions(Vec<String>, Table),
    /// `ASK`: whether there is a solution.
    Boolean(bool),
    /// `CONSTRUCT` and `DESCRIBE`: distinct triples.
    Triples(Vec<(Id, Id, Id)>),
}

impl Answer<'_> {
    /// Returns the term with an id in the answer.
    pub fn term(&self, id: Id) -> Option<Term> {
        self.ctx.term(id)
    }

    /// Appends a term's text ([`crate::dictionary::Key::put`]); returns `false` if the id has no term.
    pub fn put(&self, id: Id, to: &mut String) -> bool {
        self.ctx.put(id, to)
    }

    /// Returns the id of a term in the answer.
    pub fn find(&self, key: &crate::dictionary::Key<'_>) -> Option<Id> {
        let id = self.ctx.number_key(key);
        (id != UNBOUND).then_some(id)
    }

    pub(crate) fn ctx(&self) -> &Context<'_> {
        &self.ctx
    }

    /// Returns the number of solutions or triples.
    pub fn len(&self) -> usize {
        match &self.found {
            Found::Solutions(_, table) => table.len(),
            Found::Boolean(_) => 1,
            Found::Triples(list) => list.len(),
        }
    }

    /// Returns whether the result is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a triple of the result.
    pub fn triple(&self, (s, p, o): (Id, Id, Id)) -> Option<oxrdf::Triple> {
        let subject = match self.term(s)? {
            Term::NamedNode(n) => NamedOrBlankNode::NamedNode(n),
            Term::BlankNode(n) => NamedOrBlankNode::BlankNode(n),
            Term::Literal(_) | Term::Triple(_) => return None,
        };
        let Term::NamedNode(predicate) = self.term(p)? else {
            return None;
        };
        Some(oxrdf::Triple::new(subject, predicate, self.term(o)?))
    }

    /// Returns the plan, if it was requested; with what was done if the query ran.
    pub const fn plan(&self) -> Option<&PlanNode> {
        self.plan.as_ref()
    }
}

/// Parses and evaluates a query. With `profile`, the answer has the plan with what was done.
pub fn query<'a>(
    data: &'a Dataset,
    text: &str,
    base: Option<&str>,
    graphs: Option<&Graphs>,
    profile: bool,
    options: &'a Options<'a>,
) -> Result<Answer<'a>> {
    query_parsed(
        data,
        text,
        &syntax::query(text, base)?,
        graphs,
        profile,
        options,
    )
}

/// Evaluates a parsed query like [`query`]; `text` is its source.
pub fn query_parsed<'a>(
    data: &'a Dataset,
    text: &str,
    query: &Query,
    graphs: Option<&Graphs>,
    profile: bool,
    options: &'a Options<'a>,
) -> Result<Answer<'a>> {
    let mut found = answer(data, query, graphs, profile, options)?;
    if let Found::Solutions(names, table) = &mut found.found
        && syntax::selects_all(text)
    {
        // The parser sorts the variables of `SELECT *`; users expect the order of first use.
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|i| syntax::first_use(text, &names[*i]));
        let vars: Vec<Var> = order
            .iter()
            .filter_map(|i| table.vars().get(*i).copied())
            .collect();
        *names = order.iter().map(|i| names[*i].clone()).collect();
        *table = std::mem::take(table).project(&vars);
    }
    Ok(found)
}

/// Evaluates a parsed query.
pub fn answer<'a>(
    data: &'a Dataset,
    query: &Query,
    graphs: Option<&Graphs>,
    profile: bool,
    options: &'a Options<'a>,
) -> Result<Answer<'a>> {
    let mut ctx = Context::new(data, options, query.base_iri().cloned());
    match (graphs, query.dataset()) {
        (Some(g), _) => ctx.choose(&g.default, &g.named),
        (None, Some(d)) => choose(&mut ctx, d),
        (None, None) => {}
    }
    ctx.profile = profile && !options.explain_only;
    let (found, plan) = match query {
        Query::Select { pattern, .. } => select(&ctx, pattern)?,
        Query::Ask { pattern, .. } => boolean(&ctx, pattern)?,
        Query::Construct {
            template, pattern, ..
        } => construct(&ctx, template, pattern)?,
        Query::Describe { pattern, .. } => describe(&ctx, pattern)?,
    };
    if let Some(error) = ctx.failed.borrow_mut().take() {
        return Err(error);
    }
    Ok(Answer { ctx, found, plan })
}

/// A result, and the plan if it was requested.
type Planned<T> = (T, Option<PlanNode>);

fn select(ctx: &Context<'_>, pattern: &GraphPattern) -> Result<Planned<Found>> {
    let mut translator = Translator::new(ctx);
    let node = translator.node(pattern)?;
    let names = translator.names;
    let vars = match outermost(&node) {
        Some(vars) => vars,
        None => node.vars(),
    };
    let shown: Vec<String> = vars.iter().map(|v| names.show(*v)).collect();
    let _ = ctx.names.set(names);
    let required = Required {
        vars: vars.clone(),
        ..Required::default()
    };
    let node = if ctx.is_view() { node.by_terms() } else { node };
    let (table, plan) = solved(ctx, node, &required)?;
    let bare = |n: &String| n.trim_start_matches('?').to_owned();
    let names = shown.iter().map(bare).collect();
    Ok((Found::Solutions(names, table.project(&vars)), plan))
}

fn boolean(ctx: &Context<'_>, pattern: &GraphPattern) -> Result<Planned<Found>> {
    let mut translator = Translator::new(ctx);
    let node = translator.node(pattern)?;
    let _ = ctx.names.set(translator.names);
    let required = Required {
        distinct: true,
        limit: Some(1),
        ..Required::default()
    };
    let (table, plan) = solved(ctx, node, &required)?;
    Ok((Found::Boolean(!table.is_empty()), plan))
}

fn construct(
    ctx: &Context<'_>,
    template: &[TriplePattern],
    pattern: &GraphPattern,
) -> Result<Planned<Found>> {
    let mut translator = Translator::new(ctx);
    let node = translator.node(pattern)?;
    let triples: Vec<[TemplateTerm; 3]> = template
        .iter()
        .map(|t| TemplateTerm::triple(&mut translator, t))
        .collect();
    let _ = ctx.names.set(translator.names);
    let mut vars: Vec<Var> = Vec::new();
    triples
        .iter()
        .flatten()
        .for_each(|term| term.vars(&mut vars));
    vars.sort_unstable();
    vars.dedup();
    let required = Required {
        vars,
        distinct: !triples.iter().flatten().any(TemplateTerm::has_blank) && !has_slice(&node),
        ..Required::default()
    };
    let node = match node {
        node if ctx.is_view() && !node.is_ordered() => Node::OrderBy {
            inner: Box::new(node),
            by: Vec::new(),
            ties: required.vars.clone(),
        },
        node => node,
    };
    let (table, plan) = solved(ctx, node, &required)?;
    let triples = instances(ctx, &table, &triples)?;
    Ok((Found::Triples(triples), plan))
}

fn describe(ctx: &Context<'_>, pattern: &GraphPattern) -> Result<Planned<Found>> {
    let mut translator = Translator::new(ctx);
    let node = translator.node(pattern)?;
    let _ = ctx.names.set(translator.names);
    let required = Required {
        vars: node.vars(),
        ..Required::default()
    };
    let (table, plan) = solved(ctx, node, &required)?;
    let mut list = descriptions(ctx, &table)?;
    if ctx.is_view() {
        sort_triples(ctx, &mut list)?;
    }
    Ok((Found::Triples(list), plan))
}

/// Returns the solutions; an empty table if only the plan is requested.
fn solved(ctx: &Context<'_>, node: Node, required: &Required) -> Result<Planned<Table>> {
    let plan = plan(ctx, node, required)?;
    if ctx.options.explain_only {
        let empty = Table::empty(required.vars.clone());
        return Ok((empty, Some(show(ctx, &plan, false))));
    }
    let table = run(ctx, &plan)?;
    let shown = ctx.profile.then(|| show(ctx, &plan, true));
    Ok((table, shown))
}

fn has_slice(node: &Node) -> bool {
    match node {
        Node::Slice { .. } => true,
        Node::Project { inner, .. } | Node::Distinct(inner) | Node::Reduced(inner) => {
            has_slice(inner)
        }
        _ => false,
    }
}

/// Returns the variables of the outermost projection, in order.
fn outermost(node: &Node) -> Option<Vec<Var>> {
    match node {
        Node::Project { vars, .. } => Some(vars.clone()),
        Node::Slice { inner, .. } | Node::Distinct(inner) | Node::Reduced(inner) => {
            outermost(inner)
        }
        _ => None,
    }
}

pub(crate) fn choose(ctx: &mut Context<'_>, dataset: &QueryDataset) {
    let texts = |list: &[NamedNode]| {
        list.iter()
            .map(|n| n.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    // WITH replaces the default graph and keeps the named graphs.
    let all = dataset.named.is_none().then(|| ctx.named.clone());
    let named = dataset.named.as_deref().map(texts).unwrap_or_default();
    ctx.choose(&texts(&dataset.default), &named);
    if let Some(all) = all {
        ctx.named = all;
    }
}

impl Context<'_> {
    /// Restricts the query to these graphs.
    pub(crate) fn choose(&mut self, default: &[String], named: &[String]) {
        let find = |iri: &String| -> Option<(Id, Arc<Graph>)> {
            let id = self
                .data
                .dictionary
                .find(&crate::dictionary::Key::Iri(iri))?;
            Some((id, self.data.graph(id)?.clone()))
        };
        let mut parts: Vec<(Id, Arc<Graph>)> = default.iter().filter_map(find).collect();
        parts.sort_by_key(|(id, _)| *id);
        parts.dedup_by_key(|(id, _)| *id);
        let mut named: Vec<(Id, Arc<Graph>)> = named.iter().filter_map(find).collect();
        if self.is_view() {
            named.sort_by(|(a, _), (b, _)| by_term(self, *a, *b));
        }
        let whole = match &*parts {
            [] => Arc::default(),
            [(_, graph)] => graph.clone(),
            many => Arc::new(Graph::union(many.iter().map(|(_, g)| &**g))),
        };
        self.named = named;
        self.set_graph(whole);
    }
}

/// Returns the template's triples for each solution, without those that are incomplete or invalid.
fn instances(
    ctx: &Context<'_>,
    table: &Table,
    template: &[[TemplateTerm; 3]],
) -> Result<Vec<(Id, Id, Id)>> {
    let mut seen = HashSet::new();
    let mut list = Vec::new();
    for row in table.rows() {
        check_growth(ctx, row.at, list.len())?;
        let mut labels = Labels::new();
        for t in template {
            let terms = t.each_ref().map(|t| t.instance(ctx, row, &mut labels));
            let [Some(s), Some(p), Some(o)] = terms else {
                continue;
            };
            let triple = (s, p, o);
            if ctx.is_triple(triple) && seen.insert(triple) {
                list.push(triple);
            }
        }
    }
    Ok(list)
}

/// Every 1024 turns, checks for cancellation, and whether `triples` triples, in a list and in a set, fit into memory.
fn check_growth(ctx: &Context<'_>, turn: usize, triples: usize) -> Result<()> {
    if !turn.is_multiple_of(1024) {
        return Ok(());
    }
    ctx.check()?;
    ctx.fits(triples, 9)
}

/// Returns the triples whose subjects are terms of the solutions, or blank nodes reachable from these.
fn descriptions(ctx: &Context<'_>, table: &Table) -> Result<Vec<(Id, Id, Id)>> {
    use crate::dictionary::{Head, Parts};
    let graph = ctx.graph();
    let mut left: Vec<Id> = table
        .columns()
        .iter()
        .flatten()
        .copied()
        .filter(|id| *id != UNBOUND)
        .collect();
    let mut seen: HashSet<Id> = HashSet::new();
    let mut list = Vec::new();
    while let Some(s) = left.pop() {
        if !seen.insert(s) {
            continue;
        }
        check_growth(ctx, seen.len(), list.len())?;
        for p in graph.predicates() {
            for o in graph.index(*p).map_or(&[][..], |x| x.so.get(s)) {
                list.push((s, *p, *o));
                if ctx.with_parts(*o, |x| matches!(x, Parts::Stored(Head::Blank, _))) == Some(true)
                {
                    left.push(*o);
                }
            }
        }
    }
    Ok(list)
}
