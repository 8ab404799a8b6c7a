//! Access rights on RDF graphs: owner, group and mode bits per graph, as for files and objects.
//!
//! The rights are RDF themselves, in the graph `urn:esker:rights`, with the graph's IRI (or `urn:esker:default`) as the
//! subject. They apply to requests with a principal; requests without one, and those of user 0, are not restricted. A graph
//! without rights is open to all. Changing a graph needs read and write access, because the result of a change reveals
//! contents. A principal may read the rights of the graphs that it may read, and may not change any. Only asserted triples
//! count: inferred rights would let users who may change a schema decide about access.

use super::MEMORY;
use super::meta::GRAPH;
use esker_model::namespace::Errno;
use esker_model::object::Principal;
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

/// IRI of the graph with the rights.
pub const RIGHTS: &str = "urn:esker:rights";
/// IRI of the default graph in the rights.
pub const DEFAULT: &str = "urn:esker:default";

/// The rights of one principal on the graphs of a dataset.
pub(crate) struct Rights<'d> {
    data: &'d Dataset,
    principal: &'d Principal,
    graph: Option<(Id, Arc<Graph>)>,
    default: Option<Id>,
    owner: Option<Id>,
    group: Option<Id>,
    mode: Option<Id>,
}

impl<'d> Rights<'d> {
    /// Rights of a principal; `None` if it is not restricted.
    pub(crate) fn of(data: &'d Dataset, principal: Option<&'d Principal>) -> Option<Self> {
        let principal = Principal::limited(principal)?;
        let find = |iri: &str| data.dictionary.find(&Key::Iri(iri));
        let word = |name: &str| find(&format!("urn:esker:terms/{name}"));
        Some(Self {
            data,
            principal,
            graph: find(RIGHTS).and_then(|g| Some((g, Arc::clone(data.graph(g)?)))),
            default: find(DEFAULT),
            owner: word("owner"),
            group: word("group"),
            mode: word("mode"),
        })
    }

    /// Object of one property of a graph's rights.
    fn property(&self, g: Id, word: Option<Id>) -> Option<Id> {
        let subject = if g == UNBOUND { self.default? } else { g };
        let (rights, graph) = self.graph.as_ref()?;
        let (word, inferred) = (word?, self.data.inferred_graph(*rights));
        let mut property = graph.index(word)?.so.get(subject).iter().copied();
        property.find(|o| !inferred.is_some_and(|i| i.contains(subject, word, *o)))
    }

    fn number(&self, g: Id, word: Option<Id>) -> Option<i64> {
        match value(self.property(g, word)?) {
            Some(Inline::Integer(n)) => Some(n),
            // Matches no user or group.
            _ => Some(-1),
        }
    }

    /// Mode bits, given in octal as a string. Any other value denies access.
    fn bits(&self, g: Id) -> Option<i64> {
        let mode = self.property(g, self.mode)?;
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
        Access::new(owner, group, mode).allows(Some(self.principal), bits)
    }

    /// The graphs that the principal may not read.
    fn hidden(&self) -> Vec<Id> {
        std::iter::once(UNBOUND)
            .chain(self.data.names())
            .filter(|g| !self.may(*g, false))
            .collect()
    }

    /// The rights that the principal may read, if not all; those of unreadable graphs would reveal their names.
    fn visible_rights(&self) -> Option<(Id, Arc<Graph>)> {
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
        let visible_rights = Graph::from_pairs(pairs);
        (visible_rights.len() < graph.len()).then(|| (*rights, Arc::new(visible_rights)))
    }

    /// Refuses a change of a graph that the principal may not change.
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

    /// Refuses a change by the term of the graph; a new graph is allowed.
    fn check_term(&self, graph: Option<&Term>) -> Result<()> {
        match graph {
            None => self.check(UNBOUND),
            // The rights graph is protected even before it exists.
            Some(Term::NamedNode(name)) if name.as_str() == RIGHTS => {
                Err(Error::File(Errno::Access.at(RIGHTS)))
            }
            Some(term) => match self.data.dictionary.find_term(term.as_ref()) {
                Some(g) => self.check(g),
                None => Ok(()),
            },
        }
    }

    /// Refuses a change by the IRI of the graph.
    pub(crate) fn check_name(&self, iri: Option<&str>) -> Result<()> {
        let term = iri.map(|iri| Term::from(NamedNode::new_unchecked(iri)));
        self.check_term(term.as_ref())
    }
}

/// The data without the graphs that the principal may not read, without their rights, and without what was inferred
/// from them
/// ([`Dataset::hide`]).
pub(crate) fn readable(
    mut data: Dataset,
    principal: Option<&Principal>,
    stop: &(dyn Fn() -> Option<&'static str> + Sync),
) -> esker_rdf::Result<Dataset> {
    if let Some((hidden, visible_rights)) =
        Rights::of(&data, principal).map(|r| (r.hidden(), r.visible_rights()))
    {
        let memory = MEMORY;
        data.hide(&hidden, visible_rights, GRAPH, Limits { memory, stop })?;
    }
    Ok(data)
}

/// The rights of a principal as the guard of an update.
pub(crate) struct PrincipalGuard<'a> {
    pub(crate) principal: &'a Principal,
    pub(crate) stop: &'a (dyn Fn() -> Option<&'static str> + Sync),
}

impl fmt::Debug for PrincipalGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.principal.fmt(f)
    }
}

impl Guard for PrincipalGuard<'_> {
    fn view(&self, data: &Dataset) -> esker_rdf::Result<Dataset> {
        readable(data.clone(), Some(self.principal), self.stop)
    }

    fn check_change(&self, data: &Dataset, graph: Option<&Term>) -> esker_rdf::Result<()> {
        match Rights::of(data, Some(self.principal)) {
            Some(rights) => rights.check_term(graph).map_err(|_| {
                let name = graph.map(|term| format!("graph {term}"));
                let name = name.unwrap_or_else(|| "the default graph".into());
                esker_rdf::Error::Denied(name)
            }),
            None => Ok(()),
        }
    }
}
