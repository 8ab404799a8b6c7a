//! The database's own metadata as a graph, `urn:esker:meta`, in the words of PROV-O.
//!
//! It is made from the property graph when a request first names it, and brought up to date from the engine's change feed
//! before each later one. Its triples are numbered by the dictionary of the RDF data beside it, so one query joins both at
//! full speed; but it is no part of that data: it is put into the snapshot that a query gets.
//!
//! `map` decides what stands in it, `terms` and `words` how things are named, `build` makes it, `follow` keeps it, `image` keeps it on
//! disk.

mod build;
mod follow;
mod image;
mod map;
mod read;
mod terms;
mod wanted;
mod words;

pub use terms::GRAPH;
pub use wanted::{Wanted, check_target, is_meta};

use crate::database::Database;
use crate::engine::{Engine, News};
use crate::session::Session;
use build::{State, build};
use esker_model::object::Asker;
use esker_model::{Error, GraphRead as _, Result, Version};
use esker_rdf::dictionary::{Dictionary, Key};
use esker_rdf::id::Id;
use esker_rdf::quads::Graph;
use esker_rdf::{Dataset, Term};
use read::{Source, elsewhere};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Views that are kept, one for each who asks.
const VIEWS_MAX: usize = 8;
/// Moments of the past that are kept.
const PAST_MAX: usize = 8;

/// Vertices and edges of a database whose graph is worth an image.
const IMAGE_LEAST: u64 = 20_000;
/// What the feed keeps of changes, in things, before the image is written anew.
const BEHIND_MAX: u64 = 50_000;

/// Metadata graphs that were made, kept for the next who ask.
#[derive(Debug, Default)]
pub struct Meta {
    /// Vertices and edges from which on there is an image; 0 for the usual number.
    pub image_least: u64,
    images: usize,
    /// Least recently used first.
    views: VecDeque<(Option<Asker>, State)>,
    past: VecDeque<Past>,
}

/// What was at a time.
#[derive(Debug)]
struct Past {
    asker: Option<Asker>,
    as_of: Version,
    /// Whether nobody can write to that time any more but by saying so.
    over: bool,
    state: State,
}

impl Past {
    /// Whether nothing that is known of that time has changed.
    fn holds(&self, engine: &Engine) -> bool {
        engine.news_since(self.state.place).is_some_and(|news| {
            let elsewhen =
                self.over && self.asker.is_none() && !news.names && news.late > self.as_of;
            news.until == self.state.place || elsewhen
        })
    }
}

impl Meta {
    /// The data with the metadata graphs that are wanted, as the handle's asker sees them. Their terms get numbers in the
    /// data's dictionary.
    pub fn snapshot(
        &mut self,
        data: &mut Dataset,
        database: &Database,
        wanted: &Wanted,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Dataset> {
        let mut graphs = Vec::new();
        if wanted.now {
            graphs.push((GRAPH, self.present(data, database, stop)?));
        }
        for (name, as_of) in &wanted.past {
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

    /// The same where all that is wanted is up to date: then the data need not change.
    pub fn ready(
        &mut self,
        data: &Dataset,
        database: &Database,
        wanted: &Wanted,
    ) -> Result<Option<Dataset>> {
        let asker = database.asker().cloned();
        let terms = &data.dictionary;
        let found = with_engine(database, |engine| {
            let mut found = Vec::new();
            if wanted.now {
                let view = self.views.iter().find(|(of, _)| *of == asker);
                let Some((_, state)) = view else {
                    return Ok(None);
                };
                let news = engine.news_since(state.place);
                let still = |n: &News| {
                    n.until == state.place || asker.is_none() && n.touched.is_empty() && !n.names
                };
                if !state.fits(terms) || !news.as_ref().is_some_and(still) {
                    return Ok(None);
                }
                found.push((state.words.graph, state.graph()));
            }
            for (name, as_of) in &wanted.past {
                let past = self
                    .past
                    .iter()
                    .find(|p| p.asker == asker && p.as_of == *as_of && p.holds(engine));
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

    /// Triples of the present graph that its owner sees, if it was made.
    pub fn triples(&self) -> Option<usize> {
        let (_, state) = self.views.iter().find(|(of, _)| of.is_none())?;
        Some(state.graph().len())
    }

    /// How often a graph came from disk.
    pub const fn images_read(&self) -> usize {
        self.images
    }

    /// Forgets all that was made.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    fn present(
        &mut self,
        data: &mut Dataset,
        database: &Database,
        stop: read::Stop<'_>,
    ) -> Result<Arc<Graph>> {
        let source = Source {
            database,
            as_of: Version::MAX,
            stop,
        };
        let asker = database.asker().cloned();
        let kept = self.views.iter().position(|(of, _)| *of == asker);
        let kept = kept.and_then(|at| self.views.remove(at));
        let least = match self.image_least {
            0 => IMAGE_LEAST,
            other => other,
        };
        let mut images = self.images;
        let state = with_engine(database, |engine| {
            let is_large = asker.is_none() && size(database)? >= least;
            if let Some((_, mut state)) = kept {
                // What others may see changes with more than the feed tells of.
                let followed = match &asker {
                    None => state.follow(source, engine, &mut data.dictionary)?,
                    Some(_) => {
                        state.fits(&data.dictionary)
                            && engine
                                .news_since(state.place)
                                .is_some_and(|n| n.until == state.place)
                    }
                };
                if followed {
                    if is_large && asker.is_none() && engine.feed_keys() > BEHIND_MAX {
                        let folder = database.folder().rdf();
                        keep(&folder, &state, engine, &data.dictionary, false);
                    }
                    return Ok(state);
                }
            }
            // What is derived for one who may see all is kept on disk.
            let folder = asker
                .is_none()
                .then(|| database.folder().rdf())
                .filter(|_| is_large);
            let alone = data.dictionary.is_empty() || data.is_empty();
            if let Some(folder) = &folder {
                let schema = source.schema()?;
                let read = image::read(folder, schema, engine, &mut data.dictionary)?;
                if let Some(mut state) = read
                    && state.follow(source, engine, &mut data.dictionary)?
                {
                    if engine.feed_keys() > BEHIND_MAX {
                        keep(folder, &state, engine, &data.dictionary, alone);
                    }
                    images += 1;
                    return Ok(state);
                }
                image::remove(folder);
                // Without it there is only no image.
                let _ = engine.keep_feed();
            }
            let place = engine.follow();
            let mut state = build(source, &mut data.dictionary, place)?;
            if asker.is_none() && !state.follow(source, engine, &mut data.dictionary)? {
                // So much happened meanwhile that it is read once more, and writers wait.
                state = engine.while_nobody_writes(|| {
                    let place = engine.place();
                    build(source, &mut data.dictionary, place)
                })?;
            }
            if let Some(folder) = &folder {
                keep(folder, &state, engine, &data.dictionary, alone);
            }
            Ok(state)
        })?;
        self.images = images;
        let graph = state.graph();
        self.views.push_back((asker, state));
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
        stop: read::Stop<'_>,
    ) -> Result<Arc<Graph>> {
        let source = Source {
            database,
            as_of,
            stop,
        };
        let asker = database.asker().cloned();
        let kept = self
            .past
            .iter()
            .position(|p| p.asker == asker && p.as_of == as_of);
        let kept = kept.and_then(|at| self.past.remove(at));
        let past = with_engine(database, |engine| {
            if let Some(past) = kept
                && past.state.fits(&data.dictionary)
                && past.holds(engine)
            {
                return Ok(past);
            }
            let place = engine.follow();
            let over = as_of < engine.newest_given();
            Ok(Past {
                asker,
                as_of,
                over,
                state: build(source, &mut data.dictionary, place)?,
            })
        })?;
        let graph = past.state.graph();
        self.past.push_back(past);
        if self.past.len() > PAST_MAX {
            self.past.pop_front();
        }
        Ok(graph)
    }
}

/// Vertices and edges.
fn size(database: &Database) -> Result<u64> {
    let counts = database.on_behalf_of(None).counts()?;
    let vertices: u64 = counts.vertices.iter().map(|(_, n)| n).sum();
    Ok(vertices + counts.edges.iter().map(|(_, n)| n).sum::<u64>())
}

/// Writes the graph to disk, if the feed goes on from there. Where that fails there is no image, and nothing else is amiss.
fn keep(folder: &Path, state: &State, engine: &Engine, terms: &Dictionary, alone: bool) {
    let Some(mark) = engine.feed_mark(state.place) else {
        return;
    };
    if image::write(folder, state, terms, alone, mark).is_ok() {
        let _ = engine.trim_feed(mark.place);
    } else {
        image::remove(folder);
    }
}

/// Metadata graphs with their names, and the names' numbers.
pub type MetaGraphs = Vec<(String, Id, Arc<Graph>)>;

/// The metadata graphs that were put into data.
pub fn graphs_in(data: &Dataset) -> MetaGraphs {
    in_data(data)
        .into_iter()
        .filter_map(|id| match data.dictionary.term(id)? {
            Term::NamedNode(name) => Some((name.into_string(), id, data.graph(id)?.clone())),
            _ => None,
        })
        .collect()
}

/// Puts them into data that has their terms.
pub(crate) fn put_in(data: &mut Dataset, graphs: &MetaGraphs) -> Result<()> {
    for (name, id, graph) in graphs {
        if data.dictionary.find(&Key::Iri(name)) != Some(*id) {
            return Err(Error::Unavailable(
                "all RDF data was dropped while the metadata graph was made: ask again".into(),
            ));
        }
        data.put_graph(*id, Arc::clone(graph));
    }
    Ok(())
}

/// Takes the metadata graphs out of data that they were put into.
pub fn take_out(data: &mut Dataset) {
    for id in in_data(data) {
        data.put_graph(id, Arc::default());
    }
}

/// Refuses data that has metadata graphs of its own.
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

/// Calls with the engine, which this process must have.
fn with_engine<T>(database: &Database, call: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
    let mut call = Some(call);
    database.run(|session| match (session, call.take()) {
        (Session::Owner(owner), Some(call)) => Ok(call(owner.engine()?)?),
        _ => Ok(Err(elsewhere())?),
    })
}
