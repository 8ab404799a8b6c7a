//! SPARQL Update: returns a changed copy of the dataset, or an error.

use crate::RdfFormat;
use crate::algebra::Translator;
use crate::dictionary::Key;
use crate::error::{Error, Result};
use crate::exec::{Context, Options, Var, run};
use crate::guard::{is_derived, is_derived_graph};
use crate::id::{Id, UNBOUND};
use crate::log::Change;
use crate::parse::Loader;
use crate::plan::{Required, plan};
use crate::quads::{Dataset, Quad};
use crate::query::{Graphs, choose};
use crate::syntax;
use crate::template::{Labels, TemplateTerm};
use oxrdf::{NamedNode, NamedOrBlankNode, Term};
use spargebra::algebra::{GraphPattern, GraphTarget, QueryDataset};
use spargebra::term::{GraphNamePattern, GroundQuadPattern, NamedNodePattern, QuadPattern};
use spargebra::{GraphUpdateOperation as Operation, Update};
use std::collections::{BTreeSet, HashMap};
use std::io::Read;

/// Reads the document of a `LOAD`: the host decides what may be read. The error is a user message.
pub type Fetch<'a> = dyn FnMut(&Load<'_>) -> std::result::Result<Dataset, String> + 'a;

/// A `LOAD` of an update.
#[derive(Debug)]
pub struct Load<'a> {
    /// IRI of the document.
    pub iri: &'a str,
    /// Graph of triples that name none; `None` is the default graph.
    graph: Option<&'a str>,
    /// Prefix of the labels of the document's blank nodes, which no other document has.
    blank: String,
}

impl<'a> Load<'a> {
    /// Returns the `LOAD` of an operation. `seed` and `count` tell its blank nodes from others.
    fn of_operation(operation: &'a Operation, seed: u64, count: u64) -> Option<Self> {
        let Operation::Load {
            source,
            destination,
            ..
        } = operation
        else {
            return None;
        };
        Some(Self {
            iri: source.as_str(),
            graph: match destination {
                spargebra::term::GraphName::NamedNode(n) => Some(n.as_str()),
                spargebra::term::GraphName::DefaultGraph => None,
            },
            blank: format!("l{seed:x}n{count}"),
        })
    }

    /// Parses the document, found at `place`. A mistake is reported with its line.
    pub fn read(
        &self,
        place: &str,
        from: &mut dyn Read,
        format: RdfFormat,
    ) -> std::result::Result<Dataset, String> {
        let mut loader = Loader::new(Dataset::default(), &self.blank, false);
        loader
            .read(place, from, format, self.graph, Some(place))
            .map_err(|e| e.to_string())?;
        Ok(loader.finish().0)
    }
}

/// Returns each `LOAD` of an update, in order, so that a host can read the documents before the update. `seed` is a number that no other update
/// has.
pub fn loads_of(update: &Update, seed: u64) -> impl Iterator<Item = Load<'_>> {
    let operations = (0..).zip(&update.operations);
    operations.filter_map(move |(i, operation)| Load::of_operation(operation, seed, i))
}

/// Result of an update.
#[derive(Debug)]
pub struct Updated {
    /// The dataset after the update.
    pub data: Dataset,
    /// Changes for the log, in order.
    pub changes: Vec<Change>,
    /// Number of new quads.
    pub added: usize,
    /// Number of removed quads.
    pub removed: usize,
}

/// Runs a request with all its operations, on a copy.
pub fn update(
    data: &Dataset,
    text: &str,
    base: Option<&str>,
    graphs: Option<&Graphs>,
    fetch: &mut Fetch<'_>,
    options: &Options<'_>,
) -> Result<Updated> {
    parsed(data, &syntax::update(text, base)?, graphs, fetch, options)
}

fn parsed(
    data: &Dataset,
    request: &Update,
    graphs: Option<&Graphs>,
    fetch: &mut Fetch<'_>,
    options: &Options<'_>,
) -> Result<Updated> {
    let mut work = UpdateRun {
        out: Updated {
            data: data.clone(),
            changes: Vec::new(),
            added: 0,
            removed: 0,
        },
        options,
        count: 0,
    };
    let base = request.base_iri.as_ref();
    for (i, operation) in request.operations.iter().enumerate() {
        if let Some(from) = moved(&request.operations[i..]) {
            work.check_moved(from)?;
        }
        work.operation(operation, base, graphs, fetch)?;
    }
    Ok(work.out)
}

/// Returns the graph that MOVE without SILENT moves, if the operations begin with one: the parser makes three of it (SPARQL 1.1 Update,
/// section 3.2.5).
fn moved(operations: &[Operation]) -> Option<&NamedNode> {
    let [
        Operation::Drop { silent: true, .. },
        Operation::DeleteInsert { pattern, .. },
        Operation::Drop {
            silent: false,
            graph: GraphTarget::NamedNode(from),
        },
        ..,
    ] = operations
    else {
        return None;
    };
    let GraphPattern::Graph { name, .. } = &**pattern else {
        return None;
    };
    (*name == NamedNodePattern::NamedNode(from.clone())).then_some(from)
}

/// Like [`update`], in place: a request that only adds and removes given quads copies nothing, and changes nothing if it fails. Returns the
/// changes, and the numbers of new and removed quads.
pub fn update_in_place(
    data: &mut Dataset,
    text: &str,
    graphs: Option<&Graphs>,
    fetch: &mut Fetch<'_>,
    options: &Options<'_>,
) -> Result<(Vec<Change>, usize, usize)> {
    update_parsed(data, &syntax::update(text, None)?, graphs, fetch, options)
}

/// Runs a parsed request like [`update_in_place`].
pub fn update_parsed(
    data: &mut Dataset,
    request: &Update,
    graphs: Option<&Graphs>,
    fetch: &mut Fetch<'_>,
    options: &Options<'_>,
) -> Result<(Vec<Change>, usize, usize)> {
    let plain = matches!(
        request.operations.as_slice(),
        [Operation::InsertData { .. } | Operation::DeleteData { .. }]
    );
    if !plain {
        let done = parsed(data, request, graphs, fetch, options)?;
        *data = done.data;
        return Ok((done.changes, done.added, done.removed));
    }
    let mut work = UpdateRun {
        out: Updated {
            data: std::mem::take(data),
            changes: Vec::new(),
            added: 0,
            removed: 0,
        },
        options,
        count: 0,
    };
    // A single operation either resolves all its terms and succeeds, or leaves at most unused terms.
    let outcome = request
        .operations
        .iter()
        .try_for_each(|o| work.operation(o, None, graphs, fetch));
    *data = work.out.data;
    outcome.map(|()| (work.out.changes, work.out.added, work.out.removed))
}

/// Replaces the contents of a graph by these triples; blank nodes are those of the data. Returns the changes, and the numbers of new and
/// removed quads.
pub fn replace(
    data: &mut Dataset,
    graph: &str,
    triples: &[oxrdf::Triple],
) -> Result<(Vec<Change>, usize, usize)> {
    let g = data.dictionary.intern(&Key::Iri(graph))?;
    let removed = data.asserted_len(g);
    let mut changes = Vec::with_capacity(triples.len() + 1);
    if data.clear(g) {
        changes.push(Change::Clear(g));
    }
    let mut quads = Vec::with_capacity(triples.len());
    for t in triples {
        let s = match &t.subject {
            NamedOrBlankNode::NamedNode(n) => data.dictionary.intern(&Key::Iri(n.as_str()))?,
            NamedOrBlankNode::BlankNode(b) => data.dictionary.intern(&Key::Blank(b.as_str()))?,
        };
        let p = data.dictionary.intern(&Key::Iri(t.predicate.as_str()))?;
        let o = data.dictionary.intern_term(t.object.as_ref())?;
        quads.push((Quad { s, p, o, g }, true));
    }
    let (added, _) = data.change(&quads);
    changes.extend(quads.into_iter().map(|(q, _)| Change::Add(q)));
    Ok((changes, added, removed))
}

struct UpdateRun<'a> {
    out: Updated,
    options: &'a Options<'a>,
    count: u64,
}

fn refused(iri: &str) -> Error {
    Error::Refused(format!(
        "<{iri}> follows the database and no update changes it; it may be read and copied: COPY <{iri}> TO a graph of your own"
    ))
}

impl UpdateRun<'_> {
    fn operation(
        &mut self,
        operation: &Operation,
        base: Option<&oxiri::Iri<String>>,
        graphs: Option<&Graphs>,
        fetch: &mut Fetch<'_>,
    ) -> Result<()> {
        self.count += 1;
        self.check_targets(operation)?;
        match operation {
            Operation::InsertData { data } => {
                let mut changes = Vec::with_capacity(data.len());
                for q in data {
                    let quad = Quad {
                        s: self.subject(&q.subject)?,
                        p: self.term(&Term::from(q.predicate.clone()))?,
                        o: self.object(&q.object)?,
                        g: self.graph(&q.graph_name)?,
                    };
                    changes.push((quad, true));
                }
                self.change(&changes);
            }
            Operation::DeleteData { data } => {
                let mut changes = Vec::with_capacity(data.len());
                for q in data {
                    let find = |t: Term| self.out.data.dictionary.find_term(t.as_ref());
                    let quad = (|| {
                        Some(Quad {
                            s: find(q.subject.clone().into())?,
                            p: find(q.predicate.clone().into())?,
                            o: find(q.object.clone().into())?,
                            g: match &q.graph_name {
                                spargebra::term::GraphName::NamedNode(n) => find(n.clone().into())?,
                                spargebra::term::GraphName::DefaultGraph => UNBOUND,
                            },
                        })
                    })();
                    changes.extend(quad.map(|q| (q, false)));
                }
                self.change(&changes);
            }
            Operation::DeleteInsert {
                delete,
                insert,
                using,
                pattern,
            } => {
                self.delete_insert(delete, insert, using.as_ref(), pattern, base, graphs)?;
            }
            Operation::Load { silent, .. } => {
                let load = Load::of_operation(operation, self.options.seed, self.count);
                match load.map_or(Ok(()), |load| self.load(&load, fetch)) {
                    Err(_) if *silent => {}
                    other => other?,
                }
            }
            Operation::Clear { graph, .. } | Operation::Drop { graph, .. } => {
                self.clear(graph)?;
            }
            // A graph exists once it has triples.
            Operation::Create { silent, graph } => {
                if !silent && self.is_visible(graph)? {
                    return Err(Error::Refused(format!(
                        "CREATE GRAPH {graph}: there is such a graph; CREATE SILENT ignores that"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns the data visible to the update's principal.
    fn visible_data(&self) -> Result<Dataset> {
        match self.options.guard {
            Some(guard) => guard.view(&self.out.data),
            None => Ok(self.out.data.clone()),
        }
    }

    /// Returns whether a graph has triples that the update's principal sees.
    fn is_visible(&self, graph: &NamedNode) -> Result<bool> {
        let visible_data = self.visible_data()?;
        let id = visible_data.dictionary.find(&Key::Iri(graph.as_str()));
        Ok(id.is_some_and(|id| visible_data.graph(id).is_some()))
    }

    /// Refuses MOVE of a graph that does not exist: its target would be emptied.
    fn check_moved(&self, graph: &NamedNode) -> Result<()> {
        self.check_target(Some(&graph.clone().into()))?;
        if self.is_visible(graph)? {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "MOVE {graph}: there is no such graph; MOVE SILENT ignores that, and empties the target"
        )))
    }

    /// Refuses a change of a graph that no update may change, or not this principal's.
    fn check_target(&self, graph: Option<&Term>) -> Result<()> {
        if let Some(Term::NamedNode(name)) = graph
            && is_derived(self.options.derived, name.as_str())
        {
            return Err(refused(name.as_str()));
        }
        match self.options.guard {
            Some(guard) => guard.check_change(&self.out.data, graph),
            None => Ok(()),
        }
    }

    /// Checks each graph that an operation names as its target, whether or not anything would change.
    fn check_targets(&self, operation: &Operation) -> Result<()> {
        use spargebra::term::GraphName;
        let name = |g: &GraphName| match g {
            GraphName::NamedNode(n) => Some(n.clone()),
            GraphName::DefaultGraph => None,
        };
        // Graphs named by a variable are checked for each solution.
        let pattern = |g: &GraphNamePattern| match g {
            GraphNamePattern::NamedNode(n) => Some(Some(n.clone())),
            GraphNamePattern::DefaultGraph => Some(None),
            GraphNamePattern::Variable(_) => None,
        };
        let mut targets: Vec<Option<NamedNode>> = match operation {
            Operation::InsertData { data } => data.iter().map(|q| name(&q.graph_name)).collect(),
            Operation::DeleteData { data } => data.iter().map(|q| name(&q.graph_name)).collect(),
            Operation::DeleteInsert { delete, insert, .. } => delete
                .iter()
                .filter_map(|q| pattern(&q.graph_name))
                .chain(insert.iter().filter_map(|q| pattern(&q.graph_name)))
                .collect(),
            Operation::Load { destination, .. } => vec![name(destination)],
            Operation::Clear { graph, .. } | Operation::Drop { graph, .. } => match graph {
                GraphTarget::NamedNode(n) => vec![Some(n.clone())],
                GraphTarget::DefaultGraph => vec![None],
                // The visible graphs are checked one by one.
                GraphTarget::NamedGraphs | GraphTarget::AllGraphs => Vec::new(),
            },
            // CREATE changes nothing.
            Operation::Create { graph, .. } => {
                return match graph.as_str() {
                    iri if is_derived(self.options.derived, iri) => Err(refused(iri)),
                    _ => Ok(()),
                };
            }
        };
        targets.sort_unstable();
        targets.dedup();
        targets
            .into_iter()
            .try_for_each(|graph| self.check_target(graph.map(Term::from).as_ref()))
    }

    fn change(&mut self, changes: &[(Quad, bool)]) {
        // Only effective changes are logged.
        let there = |q: &Quad| self.out.data.is_asserted(q);
        let kept: Vec<(Quad, bool)> = if changes.len() == 1 {
            changes
                .iter()
                .filter(|(q, add)| there(q) != *add)
                .copied()
                .collect()
        } else {
            changes.to_vec()
        };
        let (added, removed) = self.out.data.change(&kept);
        self.out.added += added;
        self.out.removed += removed;
        self.out.changes.extend(kept.into_iter().map(|(q, add)| {
            if add {
                Change::Add(q)
            } else {
                Change::Remove(q)
            }
        }));
    }

    fn delete_insert(
        &mut self,
        delete: &[GroundQuadPattern],
        insert: &[QuadPattern],
        using: Option<&QueryDataset>,
        pattern: &GraphPattern,
        base: Option<&oxiri::Iri<String>>,
        graphs: Option<&Graphs>,
    ) -> Result<()> {
        let before = self.visible_data()?;
        let mut options = self.options.clone();
        options.seed = options
            .seed
            .wrapping_add(self.count.wrapping_mul(0x9E37_79B9));
        let mut ctx = Context::new(&before, &options, base.cloned());
        match (using, graphs) {
            (Some(d), _) => choose(&mut ctx, d),
            (None, Some(g)) => ctx.choose(&g.default, &g.named),
            (None, None) => {}
        }
        let mut translator = Translator::new(&ctx);
        let node = translator.node(pattern)?;
        let deletes: Vec<[TemplateTerm; 4]> = delete
            .iter()
            .map(|q| TemplateTerm::ground_quad(&mut translator, q))
            .collect();
        let inserts: Vec<[TemplateTerm; 4]> = insert
            .iter()
            .map(|q| TemplateTerm::quad(&mut translator, q))
            .collect();
        let _ = ctx.names.set(translator.names);
        let mut vars: Vec<Var> = Vec::new();
        let terms = deletes.iter().chain(&inserts).flatten();
        terms.for_each(|term| term.vars(&mut vars));
        vars.sort_unstable();
        vars.dedup();
        let fresh = inserts.iter().flatten().any(TemplateTerm::has_blank);
        let required = Required {
            vars,
            distinct: !fresh,
            ..Required::default()
        };
        let table = run(&ctx, &plan(&ctx, node, &required)?)?;
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for row in table.rows() {
            let mut labels = Labels::new();
            for (templates, to) in [(&deletes, &mut gone), (&inserts, &mut new)] {
                for template in templates {
                    let terms = template
                        .each_ref()
                        .map(|term| term.instance(&ctx, row, &mut labels));
                    let [Some(s), Some(p), Some(o), Some(g)] = terms else {
                        continue;
                    };
                    let named = g == UNBOUND || ctx.is_triple((g, p, o));
                    if named && ctx.is_triple((s, p, o)) {
                        to.push(Quad { s, p, o, g });
                    }
                }
            }
        }
        // A term that cannot be made is an error, not an unbound variable.
        ctx.check()?;
        let targets: BTreeSet<Id> = gone.iter().chain(&new).map(|q| q.g).collect();
        for g in targets {
            self.check_target(ctx.term(g).as_ref())?;
        }
        let mut changes: Vec<(Quad, bool)> = Vec::with_capacity(gone.len() + new.len());
        // Terms that the query computed are not in the dictionary yet; a deleted quad must be.
        changes.extend(
            gone.into_iter()
                .filter(|q| {
                    [q.s, q.p, q.o, q.g]
                        .iter()
                        .all(|id| !crate::exec::is_local(*id))
                })
                .map(|q| (q, false)),
        );
        let mut known: HashMap<Id, Id> = HashMap::new();
        for mut q in new {
            for id in [&mut q.s, &mut q.p, &mut q.o, &mut q.g] {
                if crate::exec::is_local(*id) {
                    *id = match known.get(id) {
                        Some(n) => *n,
                        None => {
                            let Some(term) = ctx.term(*id) else {
                                continue;
                            };
                            let n = self.term(&term)?;
                            known.insert(*id, n);
                            n
                        }
                    };
                }
            }
            changes.push((q, true));
        }
        self.change(&changes);
        Ok(())
    }

    fn load(&mut self, load: &Load<'_>, fetch: &mut Fetch<'_>) -> Result<()> {
        let loaded =
            fetch(load).map_err(|e| Error::Refused(format!("LOAD <{}>: {e}", load.iri)))?;
        for g in loaded.names() {
            self.check_target(loaded.dictionary.term(g).as_ref())?;
        }
        let mut changes = Vec::with_capacity(loaded.len());
        let mut known: HashMap<Id, Id> = HashMap::new();
        for q in loaded.quads() {
            let mut ids = [q.s, q.p, q.o, q.g];
            for id in &mut ids {
                if *id == UNBOUND {
                    continue;
                }
                if let Some(n) = known.get(id) {
                    *id = *n;
                } else if let Some(term) = loaded.dictionary.term(*id) {
                    let n = self.out.data.dictionary.intern_term(term.as_ref())?;
                    known.insert(*id, n);
                    *id = n;
                }
            }
            let [s, p, o, g] = ids;
            changes.push((Quad { s, p, o, g }, true));
        }
        self.change(&changes);
        Ok(())
    }

    /// Clears graphs. A graph that does not exist counts as empty: empty graphs are not stored, so a client may have created it.
    fn clear(&mut self, target: &GraphTarget) -> Result<()> {
        let graphs: Vec<Id> = match target {
            GraphTarget::DefaultGraph => vec![UNBOUND],
            GraphTarget::NamedNode(n) => {
                let named = self.out.data.dictionary.find(&Key::Iri(n.as_str()));
                named.into_iter().collect()
            }
            GraphTarget::NamedGraphs | GraphTarget::AllGraphs => {
                let visible_data = self.visible_data()?;
                let all = matches!(target, GraphTarget::AllGraphs)
                    && visible_data.graph(UNBOUND).is_some_and(|g| !g.is_empty());
                let graphs = all
                    .then_some(UNBOUND)
                    .into_iter()
                    .chain(visible_data.names());
                // ALL excludes derived graphs, which no update changes; naming one was refused above.
                let graphs: Vec<Id> = graphs
                    .filter(|g| !is_derived_graph(self.options.derived, &visible_data, *g))
                    .collect();
                for g in &graphs {
                    self.check_target(visible_data.dictionary.term(*g).as_ref())?;
                }
                graphs
            }
        };
        for g in graphs {
            self.out.removed += self.out.data.asserted_len(g);
            if self.out.data.clear(g) {
                self.out.changes.push(Change::Clear(g));
            }
        }
        Ok(())
    }

    fn term(&mut self, term: &Term) -> Result<Id> {
        self.out.data.dictionary.intern_term(term.as_ref())
    }

    /// Returns a blank node of INSERT DATA: new for each request, the same within a request.
    fn blank(&mut self, label: &str) -> Result<Id> {
        let label = format!("i{:x}x{label}", self.options.seed);
        self.out.data.dictionary.intern(&Key::Blank(&label))
    }

    fn subject(&mut self, s: &NamedOrBlankNode) -> Result<Id> {
        match s {
            NamedOrBlankNode::NamedNode(n) => {
                self.out.data.dictionary.intern(&Key::Iri(n.as_str()))
            }
            NamedOrBlankNode::BlankNode(b) => self.blank(b.as_str()),
        }
    }

    fn object(&mut self, o: &Term) -> Result<Id> {
        match o {
            Term::BlankNode(b) => self.blank(b.as_str()),
            Term::Triple(t) => {
                let parts = [
                    self.subject(&t.subject)?,
                    self.term(&Term::from(t.predicate.clone()))?,
                    self.object(&t.object)?,
                ];
                self.out.data.dictionary.intern_triple(parts)
            }
            other => self.term(other),
        }
    }

    fn graph(&mut self, g: &spargebra::term::GraphName) -> Result<Id> {
        match g {
            spargebra::term::GraphName::NamedNode(n) => {
                self.out.data.dictionary.intern(&Key::Iri(n.as_str()))
            }
            spargebra::term::GraphName::DefaultGraph => Ok(UNBOUND),
        }
    }
}
