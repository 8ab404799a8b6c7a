//! Who may read and change which graph: an owner, a group and mode bits for a graph, as files and objects have them.
//!
//! They are RDF themselves, in the graph `urn:esker:rights`, with the graph's IRI (or `urn:esker:default`) as the subject. They
//! bind those on whose behalf something is asked; whoever says nothing, and user 0, may do all. A graph of which nothing is said is
//! everybody's. The rights of the graphs that they may read may be read by all, and changed by none of those whom they bind.

use esker_model::namespace::Errno;
use esker_model::object::Asker;
use esker_model::visibility::{Access, READ, WRITE};
use esker_model::{Error, Result};
use esker_rdf::Dataset;
use esker_rdf::dictionary::{Head, Key, Parts};
use esker_rdf::id::{Id, Inline, UNBOUND, value};
use esker_rdf::log::Change;
use esker_rdf::quads::Graph;
use std::collections::BTreeMap;
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
        let (_, graph) = self.graph.as_ref()?;
        graph.index(word?)?.so.get(subject).first().copied()
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
        let bits = if write { WRITE } else { READ };
        Access::new(owner, group, mode).lets(Some(self.asker), bits)
    }

    /// The graphs that somebody may not read; `None` if nobody hides anything from them.
    pub(crate) fn hidden_from(data: &'d Dataset, asker: Option<&'d Asker>) -> Option<Vec<Id>> {
        Self::of(data, asker).map(|rights| rights.hidden())
    }

    fn hidden(&self) -> Vec<Id> {
        std::iter::once(UNBOUND)
            .chain(self.data.names())
            .filter(|g| !self.may(*g, false))
            .collect()
    }

    /// The rights that they may know of, if any are said: not those of graphs that they may not read, which would name these.
    fn shown(&self) -> Option<(Id, Arc<Graph>)> {
        let (rights, graph) = self.graph.as_ref()?;
        let mut pairs = BTreeMap::<Id, Vec<u64>>::new();
        for (s, p, o) in graph.triples() {
            let of = if Some(s) == self.default { UNBOUND } else { s };
            if self.may(of, false) {
                let pair = u64::from(s) << 32 | u64::from(o);
                pairs.entry(p).or_default().push(pair);
            }
        }
        Some((*rights, Arc::new(Graph::from_pairs(pairs))))
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

    /// The same for a graph's IRI, which may be of a new one.
    pub(crate) fn check_name(&self, iri: Option<&str>) -> Result<()> {
        match iri {
            None => self.check(UNBOUND),
            // The rights may be said before there are any.
            Some(RIGHTS) => Err(Error::File(Errno::Access.at(RIGHTS))),
            Some(iri) => match self.data.dictionary.find(&Key::Iri(iri)) {
                Some(g) => self.check(g),
                None => Ok(()),
            },
        }
    }
}

/// The data without the graphs that somebody may not read, and without what is said of their rights. What order its answers have tells
/// nothing of those graphs ([`Dataset::make_view`]).
pub(crate) fn readable(mut data: Dataset, asker: Option<&Asker>) -> Dataset {
    let Some((hidden, shown)) = Rights::of(&data, asker).map(|r| (r.hidden(), r.shown())) else {
        return data;
    };
    data.make_view();
    for g in hidden {
        data.put_graph(g, Arc::default());
    }
    if let Some((rights, graph)) = shown {
        data.put_graph(rights, graph);
    }
    data
}

/// Refuses changes of graphs that somebody may not change, by the rights that held before.
pub(crate) fn check(
    before: &Dataset,
    after: &Dataset,
    asker: Option<&Asker>,
    changes: &[Change],
) -> Result<()> {
    let Some(rights) = Rights::of(before, asker) else {
        return Ok(());
    };
    let mut graphs: Vec<Id> = changes
        .iter()
        .map(|change| match change {
            Change::Add(q) | Change::Remove(q) => q.g,
            Change::Clear(g) => *g,
        })
        .collect();
    graphs.sort_unstable();
    graphs.dedup();
    let own = after.dictionary.find(&Key::Iri(RIGHTS));
    for g in graphs {
        if Some(g) == own {
            return Err(Error::File(Errno::Access.at(RIGHTS)));
        }
        rights.check(g)?;
    }
    Ok(())
}
