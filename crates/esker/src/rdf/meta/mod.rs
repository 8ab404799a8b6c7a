//! The database's own metadata as the RDF graph `urn:esker:meta`, in the vocabulary of PROV-O.
//!
//! The graph is built from the property graph when a request first names it, and is updated from the engine's change feed
//! before each later use. Its triples use the dictionary of the RDF data in the same folder, so one query joins both at
//! full
//! speed; but the graph is not part of that data: it is added to the snapshot of a query.
//!
//! `map` defines the triples, `terms` and `vocabulary` define the IRIs and literals, `build` builds the graph, `follow`
//! updates it,
//! `image` stores it on disk.

mod build;
mod follow;
mod image;
mod map;
mod read;
mod requested;
mod terms;
mod vocabulary;

pub use requested::{RequestedGraphs, check_target, is_meta};
pub use terms::GRAPH;

use crate::database::Database;
use crate::engine::{Engine, FeedChanges};
use crate::session::Session;
use build::{MetaGraph, build};
use esker_model::object::Principal;
use esker_model::sharing::OpenShares;
use esker_model::{Error, GraphRead as _, Result, Version};
use esker_rdf::dictionary::{Dictionary, Key};
use esker_rdf::id::Id;
use esker_rdf::quads::Graph;
use esker_rdf::{Dataset, Term};
use read::{Source, not_owner_error};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Maximum of cached graphs of the present, one per principal.
const VIEWS_MAX: usize = 8;
/// Maximum of cached graphs of the past.
const PAST_MAX: usize = 8;

/// Number of vertices and edges from which the graph gets an image on disk.
const IMAGE_LEAST: u64 = 20_000;
/// Number of changed items in the feed above which the image is rewritten.
const BEHIND_MAX: u64 = 50_000;

/// The reader of a metadata graph: what it sees depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MetaReader {
    principal: Option<Principal>,
    /// Shares that are open to the principal.
    shares: OpenShares,
}

impl MetaReader {
    /// The reader of a handle, now.
    fn of(database: &Database) -> Result<Self> {
        Ok(Self {
            principal: database.principal().cloned(),
            shares: database.open_shares()?,
        })
    }
}

/// Cache of metadata graphs.
#[derive(Debug, Default)]
pub struct Meta {
    /// Number of vertices and edges from which there is an image; 0 for the default.
    pub image_least: u64,
    images: usize,
    /// Cached graphs of the present, least recently used first.
    views: VecDeque<(MetaReader, MetaGraph)>,
    past: VecDeque<Past>,
}

/// A cached graph as of a past version.
#[derive(Debug)]
struct Past {
    reader: MetaReader,
    as_of: Version,
    /// Whether only writes with an explicit version can still change that time.
    over: bool,
    state: MetaGraph,
}

impl Past {
    /// Whether the graph is unchanged since it was built.
    fn is_current(&self, engine: &Engine) -> bool {
        engine
            .changes_since(self.state.position)
            .is_some_and(|news| {
                let elsewhen = self.over
                    && self.reader.principal.is_none()
                    && !news.names
                    && news.late > self.as_of;
                news.until == self.state.position || elsewhen
            })
    }
}

impl Meta {
    /// Returns the data with the requested metadata graphs, as the handle's principal sees them. Their terms are added
    /// to the
    /// data's dictionary.
    pub fn snapshot(
        &mut self,
        data: &mut Dataset,
        database: &Database,
        requested: &RequestedGraphs,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Dataset> {
        let mut graphs = Vec::new();
        if requested.now {
            graphs.push((GRAPH, self.present(data, database, stop)?));
        }
        for (name, as_of) in &requested.past {
            graphs.push((name, self.past(data, database, *as_of, stop)?));
        }
        let mut named = Vec::new();
        for (name, graph) in graphs {
            named.push((build::intern(&mut data.dictionary, name)?, graph));
        }
        let mut snapshot = data.clone();
        for (id, graph) in named {
            snapshot.put_graph(id, graph);
        }
        Ok(snapshot)
    }

    /// Returns the data with the requested graphs if all of them are cached and up to date; the data is then unchanged.
    pub fn ready(
        &mut self,
        data: &Dataset,
        database: &Database,
        requested: &RequestedGraphs,
    ) -> Result<Option<Dataset>> {
        let reader = MetaReader::of(database)?;
        let principal = &reader.principal;
        let terms = &data.dictionary;
        let found = with_engine(database, |engine| {
            let mut found = Vec::new();
            if requested.now {
                let view = self.views.iter().find(|(of, _)| *of == reader);
                let Some((_, state)) = view else {
                    return Ok(None);
                };
                let news = engine.changes_since(state.position);
                let still = |n: &FeedChanges| {
                    n.until == state.position
                        || principal.is_none() && n.touched.is_empty() && !n.names
                };
                if !state.fits(terms) || !news.as_ref().is_some_and(still) {
                    return Ok(None);
                }
                found.push((state.vocabulary.graph, state.graph()));
            }
            for (name, as_of) in &requested.past {
                let past = self
                    .past
                    .iter()
                    .find(|p| p.reader == reader && p.as_of == *as_of && p.is_current(engine));
                match (past, terms.find(&Key::Iri(name))) {
                    (Some(past), Some(id)) if past.state.fits(terms) => {
                        found.push((id, past.state.graph()));
                    }
                    _ => return Ok(None),
                }
            }
            Ok(Some(found))
        })?;
        Ok(found.map(|graphs| {
            let mut snapshot = data.clone();
            for (id, graph) in graphs {
                snapshot.put_graph(id, graph);
            }
            snapshot
        }))
    }

    /// Number of triples of the present graph without a principal, if it was built.
    pub fn triples(&self) -> Option<usize> {
        let (_, state) = self.views.iter().find(|(of, _)| of.principal.is_none())?;
        Some(state.graph().len())
    }

    /// Number of graphs that were read from disk.
    pub const fn images_read(&self) -> usize {
        self.images
    }

    /// Removes all graphs from the cache.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    fn present(
        &mut self,
        data: &mut Dataset,
        database: &Database,
        stop: read::StopFn<'_>,
    ) -> Result<Arc<Graph>> {
        let source = Source {
            database,
            as_of: Version::MAX,
            stop,
        };
        let reader = MetaReader::of(database)?;
        let principal = &reader.principal;
        let kept = self.views.iter().position(|(of, _)| *of == reader);
        let kept = kept.and_then(|at| self.views.remove(at));
        let least = match self.image_least {
            0 => IMAGE_LEAST,
            other => other,
        };
        let mut images = self.images;
        let state = with_engine(database, |engine| {
            let is_large = principal.is_none() && size(database)? >= least;
            if let Some((_, mut state)) = kept {
                // The visibility of a principal can change by more than the feed reports.
                let followed = match principal {
                    None => state.follow(source, engine, &mut data.dictionary)?,
                    Some(_) => {
                        state.fits(&data.dictionary)
                            && engine
                                .changes_since(state.position)
                                .is_some_and(|n| n.until == state.position)
                    }
                };
                if followed {
                    if is_large && principal.is_none() && engine.feed_keys() > BEHIND_MAX {
                        let folder = database.folder().rdf();
                        write_image(&folder, &state, engine, &data.dictionary, false);
                    }
                    return Ok(state);
                }
            }
            // Only the graph without a principal is stored on disk.
            let folder = principal
                .is_none()
                .then(|| database.folder().rdf())
                .filter(|_| is_large);
            let own_dictionary = data.dictionary.is_empty() || data.is_empty();
            if let Some(folder) = &folder {
                let schema = source.schema()?;
                let read = image::read(folder, schema, engine, &mut data.dictionary)?;
                if let Some(mut state) = read
                    && state.follow(source, engine, &mut data.dictionary)?
                {
                    if engine.feed_keys() > BEHIND_MAX {
                        write_image(folder, &state, engine, &data.dictionary, own_dictionary);
                    }
                    images += 1;
                    return Ok(state);
                }
                image::remove(folder);
                // A failure only means that there is no image.
                let _ = engine.persist_feed();
            }
            let position = engine.follow();
            let mut state = build(source, &mut data.dictionary, position)?;
            if principal.is_none() && !state.follow(source, engine, &mut data.dictionary)? {
                // Too many concurrent changes: the graph is rebuilt while writers wait.
                state = engine.with_writers_blocked(|| {
                    let position = engine.feed_position();
                    build(source, &mut data.dictionary, position)
                })?;
            }
            if let Some(folder) = &folder {
                write_image(folder, &state, engine, &data.dictionary, own_dictionary);
            }
            Ok(state)
        })?;
        self.images = images;
        let graph = state.graph();
        // A share that was made or revoked meanwhile may be in the graph or not.
        if reader == MetaReader::of(database)? {
            self.views.push_back((reader, state));
        }
        if self.views.len() > VIEWS_MAX {
            self.views.pop_front();
        }
        Ok(graph)
    }

    fn past(
        &mut self,
        data: &mut Dataset,
        database: &Database,
        as_of: Version,
        stop: read::StopFn<'_>,
    ) -> Result<Arc<Graph>> {
        let source = Source {
            database,
            as_of,
            stop,
        };
        let reader = MetaReader::of(database)?;
        let kept = self
            .past
            .iter()
            .position(|p| p.reader == reader && p.as_of == as_of);
        let kept = kept.and_then(|at| self.past.remove(at));
        let past = with_engine(database, |engine| {
            if let Some(past) = kept
                && past.state.fits(&data.dictionary)
                && past.is_current(engine)
            {
                return Ok(past);
            }
            let position = engine.follow();
            let over = as_of < engine.newest_assigned();
            Ok(Past {
                reader,
                as_of,
                over,
                state: build(source, &mut data.dictionary, position)?,
            })
        })?;
        let graph = past.state.graph();
        if past.reader == MetaReader::of(database)? {
            self.past.push_back(past);
        }
        if self.past.len() > PAST_MAX {
            self.past.pop_front();
        }
        Ok(graph)
    }
}

/// Number of vertices and edges.
fn size(database: &Database) -> Result<u64> {
    let counts = database.on_behalf_of(None).counts()?;
    let vertices: u64 = counts.vertices.iter().map(|(_, n)| n).sum();
    Ok(vertices + counts.edges.iter().map(|(_, n)| n).sum::<u64>())
}

/// Writes the graph to disk if the feed continues from its position. A failure only means that there is no image.
fn write_image(
    folder: &Path,
    state: &MetaGraph,
    engine: &Engine,
    terms: &Dictionary,
    own_dictionary: bool,
) {
    let Some(mark) = engine.feed_mark(state.position) else {
        return;
    };
    if image::write(folder, state, terms, own_dictionary, mark).is_ok() {
        let _ = engine.trim_feed(mark.position);
    } else {
        image::remove(folder);
    }
}

/// Metadata graphs: IRI, term number of the IRI, and triples.
pub type MetaGraphs = Vec<(String, Id, Arc<Graph>)>;

/// The metadata graphs in a dataset.
pub fn graphs_in(data: &Dataset) -> MetaGraphs {
    in_data(data)
        .into_iter()
        .filter_map(|id| match data.dictionary.term(id)? {
            Term::NamedNode(name) => Some((name.into_string(), id, data.graph(id)?.clone())),
            _ => None,
        })
        .collect()
}

/// Adds metadata graphs to data whose dictionary has their terms.
pub(crate) fn put_in(data: &mut Dataset, graphs: &MetaGraphs) -> Result<()> {
    for (name, id, graph) in graphs {
        if data.dictionary.find(&Key::Iri(name)) != Some(*id) {
            return Err(Error::Busy(
                "all RDF data was dropped while the metadata graph was made: query again".into(),
            ));
        }
        data.put_graph(*id, Arc::clone(graph));
    }
    Ok(())
}

/// Removes the metadata graphs from a dataset.
pub fn take_out(data: &mut Dataset) {
    for id in in_data(data) {
        data.put_graph(id, Arc::default());
    }
}

/// Refuses data that contains metadata graphs.
pub fn check_names(data: &Dataset) -> Result<()> {
    match in_data(data).first().and_then(|g| data.dictionary.term(*g)) {
        Some(Term::NamedNode(name)) => check_target(name.as_str()),
        _ => Ok(()),
    }
}

fn in_data(data: &Dataset) -> Vec<Id> {
    data.names()
        .filter(|g| match data.dictionary.term(*g) {
            Some(Term::NamedNode(name)) => is_meta(name.as_str()),
            _ => false,
        })
        .collect()
}

/// Calls a function with the engine; fails unless this process owns the database.
fn with_engine<T>(database: &Database, call: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
    let mut call = Some(call);
    database.run(|session| match (session, call.take()) {
        (Session::Owner(owner), Some(call)) => Ok(call(owner.engine()?)?),
        _ => Ok(Err(not_owner_error())?),
    })
}
