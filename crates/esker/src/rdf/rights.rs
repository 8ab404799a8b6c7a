//! Who may read and change which graph: an owner, a group and mode bits for a graph, as files and objects have them.
//!
//! They are RDF themselves, in the graph `urn:esker:rights`, with the graph's IRI (or `urn:esker:default`) as the subject. They
//! bind those on whose behalf something is asked; whoever says nothing, and user 0, may do all. A graph of which nothing is said is
//! everybody's. A graph is changed by those who may read and write it, because what a change did tells what the graph holds. The rights
//! of the graphs that they may read may be read by all, and changed by none of those whom they bind. Rights are asserted triples:
//! inference gives nobody any, for everybody who may change a schema would decide about it.

use super::MEMORY;
use super::meta::GRAPH;
use esker_model::namespace::Errno;
use esker_model::object::Asker;
use esker_model::visibility::{Access, READ, WRITE};
use esker_model::{Error, Result};
use esker_rdf::dictionary::{Head, Key, Parts};
use esker_rdf::id::{Id, Inline, UNBOUND, value};
use esker_rdf::infer::Limits;
use esker_rdf::quads::Graph;
use esker_rdf::{Dataset, Guard, NamedNode, Term};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The graph that says it.
pub const RIGHTS: &str = "urn:esker:rights";
/// The default graph's name there.
pub const DEFAULT: &str = "urn:esker:default";

/// What somebody may do with the graphs of some data.
pub(crate) struct Rights<'d> {
    data: &'d Dataset,
    asker: &'d Asker,
    graph: Option<(Id, Arc<Graph>)>,
    default: Option<Id>,
    owner: Option<Id>,
    group: Option<Id>,
    mode: Option<Id>,
}

impl<'d> Rights<'d> {
    /// Of somebody; `None` if they may do all.
    pub(crate) fn of(data: &'d Dataset, asker: Option<&'d Asker>) -> Option<Self> {
        let asker = Asker::limited(asker)?;
        let find = |iri: &str| data.dictionary.find(&Key::Iri(iri));
        let word = |name: &str| find(&format!("urn:esker:terms/{name}"));
        Some(Self {
            data,
            asker,
            graph: find(RIGHTS).and_then(|g| Some((g, Arc::clone(data.graph(g)?)))),
            default: find(DEFAULT),
            owner: word("owner"),
            group: word("group"),
            mode: word("mode"),
        })
    }

    /// What is said of a graph by one word.
    fn said(&self, g: Id, word: Option<Id>) -> Option<Id> {
        let subject = if g == UNBOUND { self.default? } else { g };
        let (rights, graph) = self.graph.as_ref()?;
        let (word, inferred) = (word?, self.data.inferred_graph(*rights));
        let mut said = graph.index(word)?.so.get(subject).iter().copied();
        said.find(|o| !inferred.is_some_and(|i| i.contains(subject, word, *o)))
    }

    fn number(&self, g: Id, word: Option<Id>) -> Option<i64> {
        match value(self.said(g, word)?) {
            Some(Inline::Integer(n)) => Some(n),
            // Nobody's.
            _ => Some(-1),
        }
    }

    /// Mode bits: in octal, as a text. What is something else lets nobody in.
    fn bits(&self, g: Id) -> Option<i64> {
        let mode = self.said(g, self.mode)?;
        let bits = match self.data.dictionary.parts(mode) {
            Some(Parts::Stored(Head::Plain, text)) => i64::from_str_radix(text, 8).ok(),
            _ => None,
        };
        Some(bits.unwrap_or(0))
    }

    fn may(&self, g: Id, write: bool) -> bool {
        if self.graph.as_ref().is_some_and(|(rights, _)| *rights == g) {
            return !write;
        }
        let (owner, group) = (self.number(g, self.owner), self.number(g, self.group));
        let mode = self.bits(g);
        if owner.is_none() && group.is_none() && mode.is_none() {
            return true;
        }
        let bits = if write { READ | WRITE } else { READ };
        Access::new(owner, group, mode).lets(Some(self.asker), bits)
    }

    /// The graphs that they may not read.
    fn hidden(&self) -> Vec<Id> {
        std::iter::once(UNBOUND)
            .chain(self.data.names())
            .filter(|g| !self.may(*g, false))
            .collect()
    }

    /// The rights that they may read, if that is not all: not those of graphs that they may not read, which would name these.
    fn shown(&self) -> Option<(Id, Arc<Graph>)> {
        let (rights, _) = self.graph.as_ref()?;
        let graph = self.data.asserted_graph(*rights)?;
        let mut pairs = BTreeMap::<Id, Vec<u64>>::new();
        for (s, p, o) in graph.triples() {
            let of = if Some(s) == self.default { UNBOUND } else { s };
            if self.may(of, false) {
                let pair = u64::from(s) << 32 | u64::from(o);
                pairs.entry(p).or_default().push(pair);
            }
        }
        let shown = Graph::from_pairs(pairs);
        (shown.len() < graph.len()).then(|| (*rights, Arc::new(shown)))
    }

    /// Refuses a change of a graph that they may not change.
    pub(crate) fn check(&self, g: Id) -> Result<()> {
        if self.may(g, true) {
            return Ok(());
        }
        let name = match self.data.dictionary.term(g) {
            Some(term) => format!("graph {term}"),
            None => "the default graph".into(),
        };
        Err(Error::File(Errno::Access.at(name)))
    }

    /// The same for a graph's name, which may be of a new one.
    fn check_term(&self, graph: Option<&Term>) -> Result<()> {
        match graph {
            None => self.check(UNBOUND),
            // The rights may be said before there are any.
            Some(Term::NamedNode(name)) if name.as_str() == RIGHTS => {
                Err(Error::File(Errno::Access.at(RIGHTS)))
            }
            Some(term) => match self.data.dictionary.find_term(term.as_ref()) {
                Some(g) => self.check(g),
                None => Ok(()),
            },
        }
    }

    /// The same for a graph's IRI.
    pub(crate) fn check_name(&self, iri: Option<&str>) -> Result<()> {
        let term = iri.map(|iri| Term::from(NamedNode::new_unchecked(iri)));
        self.check_term(term.as_ref())
    }
}

/// The data without the graphs that somebody may not read, without what is said of their rights, and without what follows from them
/// ([`Dataset::hide`]).
pub(crate) fn readable(
    mut data: Dataset,
    asker: Option<&Asker>,
    stop: &(dyn Fn() -> Option<&'static str> + Sync),
) -> esker_rdf::Result<Dataset> {
    if let Some((hidden, shown)) = Rights::of(&data, asker).map(|r| (r.hidden(), r.shown())) {
        let memory = MEMORY;
        data.hide(&hidden, shown, GRAPH, Limits { memory, stop })?;
    }
    Ok(data)
}

/// Somebody's rights, as updates ask for them.
pub(crate) struct AskerGuard<'a> {
    pub(crate) asker: &'a Asker,
    pub(crate) stop: &'a (dyn Fn() -> Option<&'static str> + Sync),
}

impl fmt::Debug for AskerGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.asker.fmt(f)
    }
}

impl Guard for AskerGuard<'_> {
    fn view(&self, data: &Dataset) -> esker_rdf::Result<Dataset> {
        readable(data.clone(), Some(self.asker), self.stop)
    }

    fn check_change(&self, data: &Dataset, graph: Option<&Term>) -> esker_rdf::Result<()> {
        match Rights::of(data, Some(self.asker)) {
            Some(rights) => rights.check_term(graph).map_err(|_| {
                let name = graph.map(|term| format!("graph {term}"));
                let name = name.unwrap_or_else(|| "the default graph".into());
                esker_rdf::Error::Denied(name)
            }),
            None => Ok(()),
        }
    }
}
