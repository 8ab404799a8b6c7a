//! Queries: from their text to their answer.

use crate::error::Result;
use crate::exec::{Context, Options, Table, Var, Want, by_term, eval, explain, sort_triples};
use crate::id::{Id, UNBOUND};
use crate::plan::{Node, Pos, Translator, Triple};
use crate::quads::{Dataset, Graph};
use crate::syntax;
use oxrdf::{NamedNode, NamedOrBlankNode, Term};
use spargebra::Query;
use spargebra::algebra::QueryDataset;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Which graphs a query asks, when the request says so and not its text.
#[derive(Debug, Clone, Default)]
pub struct Graphs {
    /// IRIs of graphs that together are the default graph.
    pub default: Vec<String>,
    /// IRIs of graphs that `GRAPH` may ask.
    pub named: Vec<String>,
}

/// A query's answer.
#[derive(Debug)]
pub struct Answer<'a> {
    ctx: Context<'a>,
    /// What was found.
    pub found: Found,
}

/// What a query found.
#[derive(Debug)]
pub enum Found {
    /// `SELECT`: names of the variables, solutions.
    Solutions(Vec<String>, Table),
    /// `ASK`.
    Boolean(bool),
    /// `CONSTRUCT` and `DESCRIBE`: each triple once.
    Triples(Vec<(Id, Id, Id)>),
}

impl Answer<'_> {
    /// The term of a number in the answer.
    pub fn term(&self, id: Id) -> Option<Term> {
        self.ctx.term(id)
    }

    /// A term's text as it travels ([`crate::dictionary::Key::put`]), if the number is that of one.
    pub fn put(&self, id: Id, to: &mut String) -> bool {
        self.ctx.with_parts(id, |parts| parts.put(to)).is_some()
    }

    /// The number of a term in the answer.
    pub fn find(&self, key: &crate::dictionary::Key<'_>) -> Option<Id> {
        let id = self.ctx.number_key(key);
        (id != UNBOUND).then_some(id)
    }

    pub(crate) fn ctx(&self) -> &Context<'_> {
        &self.ctx
    }

    /// Rows or triples.
    pub fn len(&self) -> usize {
        match &self.found {
            Found::Solutions(_, table) => table.len(),
            Found::Boolean(_) => 1,
            Found::Triples(list) => list.len(),
        }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A triple of a graph that was found.
    pub fn triple(&self, (s, p, o): (Id, Id, Id)) -> Option<oxrdf::Triple> {
        let subject = match self.term(s)? {
            Term::NamedNode(n) => NamedOrBlankNode::NamedNode(n),
            Term::BlankNode(n) => NamedOrBlankNode::BlankNode(n),
            Term::Literal(_) => return None,
        };
        let Term::NamedNode(predicate) = self.term(p)? else {
            return None;
        };
        Some(oxrdf::Triple::new(subject, predicate, self.term(o)?))
    }

    /// What was done, or would be, line by line, if it was asked for.
    pub fn notes(&self) -> Vec<String> {
        self.ctx.notes.borrow().clone().unwrap_or_default()
    }
}

/// Parses a query and answers it.
pub fn query<'a>(
    data: &'a Dataset,
    text: &str,
    base: Option<&str>,
    graphs: Option<&Graphs>,
    explain: bool,
    options: &'a Options<'a>,
) -> Result<Answer<'a>> {
    query_parsed(
        data,
        text,
        &syntax::query(text, base)?,
        graphs,
        explain,
        options,
    )
}

/// As [`query`], of a text that is parsed.
pub fn query_parsed<'a>(
    data: &'a Dataset,
    text: &str,
    query: &Query,
    graphs: Option<&Graphs>,
    explain: bool,
    options: &'a Options<'a>,
) -> Result<Answer<'a>> {
    let mut found = answer(data, query, graphs, explain, options)?;
    if let Found::Solutions(names, table) = &mut found.found
        && syntax::selects_all(text)
    {
        // The parser sorts the variables of `SELECT *`; people expect them as they wrote them.
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

/// Answers a query that is parsed.
pub fn answer<'a>(
    data: &'a Dataset,
    query: &Query,
    graphs: Option<&Graphs>,
    explain: bool,
    options: &'a Options<'a>,
) -> Result<Answer<'a>> {
    let mut ctx = Context::new(data, options, query.base_iri().cloned());
    match (graphs, query.dataset()) {
        (Some(g), _) => ctx.choose(&g.default, &g.named),
        (None, Some(d)) => choose(&mut ctx, d),
        (None, None) => {}
    }
    if explain || options.plan {
        *ctx.notes.borrow_mut() = Some(Vec::new());
    }
    let mut translator = Translator::new(&ctx);
    let found = match query {
        Query::Select { pattern, .. } => {
            let node = translator.node(pattern)?;
            let names = translator.names;
            let vars = match outermost(&node) {
                Some(vars) => vars,
                None => node.vars(),
            };
            let shown: Vec<String> = vars.iter().map(|v| names.show(*v)).collect();
            let _ = ctx.names.set(names);
            let want = Want {
                vars: vars.clone(),
                ..Want::default()
            };
            let node = if ctx.is_view() { node.by_terms() } else { node };
            let table = solved(&ctx, &node, &want)?.project(&vars);
            let bare = |n: &String| n.trim_start_matches('?').to_owned();
            Found::Solutions(shown.iter().map(bare).collect(), table)
        }
        Query::Ask { pattern, .. } => {
            let node = translator.node(pattern)?;
            let _ = ctx.names.set(translator.names);
            let want = Want {
                distinct: true,
                limit: Some(1),
                ..Want::default()
            };
            Found::Boolean(!solved(&ctx, &node, &want)?.is_empty())
        }
        Query::Construct {
            template, pattern, ..
        } => {
            let node = translator.node(pattern)?;
            let mut triples = Vec::new();
            let mut blanks = HashSet::new();
            for t in template {
                triples.push(Triple {
                    s: translator.pos(&t.subject),
                    p: translator.name(&t.predicate),
                    o: translator.pos(&t.object),
                });
                for term in [&t.subject, &t.object] {
                    if let spargebra::term::TermPattern::BlankNode(_) = term
                        && let Pos::Var(v) = translator.pos(term)
                    {
                        blanks.insert(v);
                    }
                }
            }
            let _ = ctx.names.set(translator.names);
            let mut vars: Vec<Var> = triples.iter().flat_map(Triple::vars).collect();
            vars.sort_unstable();
            vars.dedup();
            let want = Want {
                vars,
                distinct: blanks.is_empty() && !has_slice(&node),
                ..Want::default()
            };
            let node = match node {
                node if ctx.is_view() && !node.is_ordered() => Node::OrderBy {
                    inner: Box::new(node),
                    by: Vec::new(),
                    ties: want.vars.clone(),
                },
                node => node,
            };
            let table = solved(&ctx, &node, &want)?;
            Found::Triples(construct(&ctx, &table, &triples, &blanks)?)
        }
        Query::Describe { pattern, .. } => {
            let node = translator.node(pattern)?;
            let vars = node.vars();
            let _ = ctx.names.set(translator.names);
            let table = solved(
                &ctx,
                &node,
                &Want {
                    vars,
                    ..Want::default()
                },
            )?;
            let mut list = describe(&ctx, &table)?;
            if ctx.is_view() {
                sort_triples(&ctx, &mut list)?;
            }
            Found::Triples(list)
        }
    };
    if let Some(error) = ctx.failed.borrow_mut().take() {
        return Err(error);
    }
    Ok(Answer { ctx, found })
}

/// The solutions; none if only the way to them is asked for.
fn solved(ctx: &Context<'_>, node: &Node, want: &Want) -> Result<Table> {
    if ctx.options.plan {
        explain(ctx, node, want);
        return Ok(Table::empty(want.vars.clone()));
    }
    eval(ctx, node, want)
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

/// The variables of the outermost projection, in their order.
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
    // WITH names a default graph and leaves the named ones as they are.
    let all = dataset.named.is_none().then(|| ctx.named.clone());
    let named = dataset.named.as_deref().map(texts).unwrap_or_default();
    ctx.choose(&texts(&dataset.default), &named);
    if let Some(all) = all {
        ctx.named = all;
    }
}

impl Context<'_> {
    /// Asks these graphs only.
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

/// The triples of a template for each solution; those that lack a value or would be no triple are left out.
fn construct(
    ctx: &Context<'_>,
    table: &Table,
    template: &[Triple],
    blanks: &HashSet<Var>,
) -> Result<Vec<(Id, Id, Id)>> {
    let mut seen = HashSet::new();
    let mut list = Vec::new();
    for row in table.rows() {
        grown(ctx, row.at, list.len())?;
        let mut fresh: HashMap<Var, Id> = HashMap::new();
        for t in template {
            let mut get = |p: Pos| match p {
                Pos::Const(id) => id,
                Pos::Var(v) if blanks.contains(&v) => *fresh.entry(v).or_insert_with(|| {
                    ctx.number_key(&crate::dictionary::Key::Blank(&ctx.fresh_label()))
                }),
                Pos::Var(v) => row.get(v),
            };
            let triple = (get(t.s), get(t.p), get(t.o));
            if is_triple(ctx, triple) && seen.insert(triple) {
                list.push(triple);
            }
        }
    }
    Ok(list)
}

/// Now and then: stops if the host says so, or if so many triples, in a list and in a set, are more than there is memory for.
fn grown(ctx: &Context<'_>, turn: usize, triples: usize) -> Result<()> {
    if !turn.is_multiple_of(1024) {
        return Ok(());
    }
    ctx.check()?;
    ctx.fits(triples, 9)
}

/// Whether these terms may stand there.
pub(crate) fn is_triple(ctx: &Context<'_>, (s, p, o): (Id, Id, Id)) -> bool {
    use crate::dictionary::{Head, Parts};
    let kind = |id: Id| {
        ctx.with_parts(id, |parts| match parts {
            Parts::Stored(Head::Iri(_), _) => 'i',
            Parts::Stored(Head::Blank, _) => 'b',
            _ => 'l',
        })
        .unwrap_or('?')
    };
    [s, p, o].iter().all(|id| *id != UNBOUND) && kind(s) != 'l' && kind(p) == 'i'
}

/// The triples of which the terms of the solutions are subjects, and of the blank nodes that they lead to.
fn describe(ctx: &Context<'_>, table: &Table) -> Result<Vec<(Id, Id, Id)>> {
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
        grown(ctx, seen.len(), list.len())?;
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
