//! RDF data of a database, in memory, with an image and a log in the database's folder.

pub(crate) mod disk;
mod live;
pub mod meta;
pub(crate) mod part;
mod rights;
mod service;
mod source;
mod stack;
#[cfg(test)]
mod tests;

pub use live::{
    AddQuads, AddReport, Callback, Live, ServiceResults, StopCheck, UpdateOptions, UpdateRequest,
};
pub use rights::{DEFAULT, RIGHTS};
pub use service::Services;
pub use source::{Compression, ENDINGS, files, format_of, open, unpacked};
pub use stack::{STACK, on_large_stack};

use crate::database::Database;
use disk::Writer;
use esker_model::namespace::Errno;
use esker_model::{Error, Result};
use esker_rdf::infer::{Inference, Limits};
use esker_rdf::parse::{Loaded, Loader};
use esker_rdf::{
    Dataset, DateTime, Graphs, Guard, Load, Options, Part, RdfFormat, log, replace, update_in_place,
};
use meta::{Meta, RequestedGraphs};
use rights::PrincipalGuard;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

pub use esker_rdf as engine;

/// Maximum bytes of inferred triples during inference.
const MEMORY: usize = 4 << 30;

/// A database's RDF data, in memory.
#[derive(Debug)]
pub struct Rdf {
    data: Dataset,
    folder: PathBuf,
    number: u64,
    log_bytes: u64,
    writer: Option<Writer>,
    /// Database that the metadata graphs are derived from.
    database: Option<Database>,
    meta: Meta,
    /// Documents of servers that `LOAD` may read.
    sources: Services,
}

/// Number of quads that an update changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateCounts {
    /// Number of quads added.
    pub added: usize,
    /// Number of quads removed.
    pub removed: usize,
}

/// Inference rules of a load.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Keep the rules of the previous load.
    #[default]
    AsBefore,
    /// Use these rules, or none, from now on.
    Now(Option<Inference>),
}

/// Options for loading files.
#[derive(Debug, Default, Clone, Copy)]
pub struct LoadOptions<'a> {
    /// Graph for triples without one; `None` for the default graph.
    pub graph: Option<&'a str>,
    /// Whether malformed lines are skipped.
    pub lenient: bool,
    /// Inference rules of the load.
    pub infer: Rules,
    /// Load only triples of this part, into a folder that contains only this part.
    pub part: Option<Part>,
}

/// Size in bytes above which a log is replaced by an image when a writer opens it, if it also exceeds half the image.
const LOG_MAX: u64 = 64 << 20;

/// Number of threads for one load or query.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Converts an error of the RDF engine.
pub fn error(e: engine::Error) -> Error {
    match e {
        engine::Error::Stopped(_) => Error::Interrupted,
        engine::Error::Denied(graph) => Error::File(Errno::Access.at(graph)),
        other => Error::Invalid(other.to_string()),
    }
}

/// Current time for `NOW()`, and a random seed.
pub fn now_and_seed() -> (DateTime, u64) {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let seed = since.as_nanos() as u64 ^ (u64::from(std::process::id()) << 40);
    (DateTime::now(), seed)
}

impl Database {
    /// Opens the database's RDF data for reading.
    pub fn rdf(&self) -> Result<Rdf> {
        let mut rdf = Rdf::read(&self.rdf_folder()?)?;
        rdf.database = Some(self.clone());
        Ok(rdf)
    }

    /// Opens the database's RDF data for writing. Only one process at a time can do so.
    pub fn rdf_to_change(&self) -> Result<Rdf> {
        let mut rdf = Rdf::change(&self.rdf_folder()?)?;
        rdf.database = Some(self.clone());
        Ok(rdf)
    }

    /// The database's RDF data in memory of this process for as long as the database is open. The first call loads the
    /// data,
    /// which takes a while.
    pub fn rdf_live(&self) -> Result<Arc<Live>> {
        let mut live = self.live().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = &*live {
            return Ok(Arc::clone(live));
        }
        let opened = Arc::new(Live::open(&self.rdf_folder()?, self.is_sync())?);
        *live = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The data of [`Self::rdf_live`], if it was opened before.
    pub fn rdf_opened(&self) -> Option<Arc<Live>> {
        self.live().try_lock().ok()?.clone()
    }

    /// Snapshot of the data for a query. The metadata graphs in it contain what this handle's principal may see
    /// ([`Self::on_behalf_of`]).
    pub fn rdf_snapshot_for(
        &self,
        text: &str,
        query: &engine::Query,
        graphs: Option<&Graphs>,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Arc<Dataset>> {
        let live = self.rdf_live()?;
        let data = if RequestedGraphs::is_possible(text, graphs) {
            live.with_meta(self, &RequestedGraphs::of_query(query, graphs)?, stop)?
        } else {
            live.snapshot()
        };
        self.rdf_readable(data, stop)
    }

    /// The data without the graphs that this handle's principal may not read.
    fn rdf_readable(
        &self,
        data: Arc<Dataset>,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Arc<Dataset>> {
        let Some(principal) = self.principal() else {
            return Ok(data);
        };
        let data = rights::readable((*data).clone(), Some(principal), stop);
        data.map(Arc::new).map_err(error)
    }

    /// Snapshot of the data for a request that names at most one graph and has no query.
    pub fn rdf_snapshot_with(
        &self,
        graph: Option<&str>,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Arc<Dataset>> {
        let requested =
            graph.map_or_else(|| Ok(RequestedGraphs::default()), RequestedGraphs::of_graph)?;
        let data = self.rdf_live()?.with_meta(self, &requested, stop)?;
        self.rdf_readable(data, stop)
    }

    fn rdf_folder(&self) -> Result<PathBuf> {
        let folder = self.folder();
        let shown = folder.path.to_string_lossy();
        if crate::server::is_address(&shown) {
            return Err(Error::Target(format!(
                "this works on a database's folder only: `{shown}` is a server; run the command on \
                 the machine that has its folder, with the folder as target"
            )));
        }
        folder.check_not_in_cluster()?;
        Ok(folder.rdf())
    }
}

impl Rdf {
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let opened = disk::read(folder)?;
        Ok(Self {
            data: opened.data,
            folder: folder.to_path_buf(),
            number: opened.number,
            log_bytes: opened.log_bytes,
            writer: None,
            database: None,
            meta: Meta::default(),
            sources: Services::default(),
        })
    }

    fn change(folder: &Path) -> Result<Self> {
        let mut writer = disk::lock(folder)?;
        let mut rdf = Self::read(folder)?;
        writer.begin(rdf.number, rdf.log_bytes)?;
        rdf.writer = Some(writer);
        if rdf.number == 0 || rdf.log_bytes > LOG_MAX {
            rdf.checkpoint()?;
        }
        Ok(rdf)
    }

    /// The data without metadata graphs.
    pub const fn data(&self) -> &Dataset {
        &self.data
    }

    /// The data for a query, with the metadata graphs that it names.
    pub fn query_data(
        &mut self,
        text: &str,
        graphs: Option<&Graphs>,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Dataset> {
        if !RequestedGraphs::is_possible(text, graphs) {
            return self.readable(self.data.clone(), stop);
        }
        // The query engine reports syntax errors.
        let requested = match engine::syntax::query(text, None) {
            Ok(query) => RequestedGraphs::of_query(&query, graphs)?,
            Err(_) => RequestedGraphs::default(),
        };
        self.with_meta(&requested, stop)
    }

    /// The data with metadata graphs, as the principal may read it.
    pub fn with_meta(
        &mut self,
        requested: &RequestedGraphs,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Dataset> {
        let data = self.all_with_meta(requested, stop)?;
        self.readable(data, stop)
    }

    /// All data with metadata graphs, regardless of the principal.
    fn all_with_meta(
        &mut self,
        requested: &RequestedGraphs,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Dataset> {
        match &self.database {
            Some(database) if !requested.is_empty() => {
                self.meta
                    .snapshot(&mut self.data, database, requested, stop)
            }
            _ => Ok(self.data.clone()),
        }
    }

    /// Removes the graphs that the principal may not read.
    fn readable(
        &self,
        data: Dataset,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Dataset> {
        let principal = self.database.as_ref().and_then(Database::principal);
        rights::readable(data, principal, stop).map_err(error)
    }

    /// Folder of the RDF data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of the log since the image.
    pub const fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    fn writer(&mut self) -> Result<&mut Writer> {
        let folder = self.folder.display().to_string();
        self.writer
            .as_mut()
            .ok_or_else(|| Error::Invalid(format!("`{folder}` was opened to be read")))
    }

    /// Allows `LOAD` to read documents of servers, besides files of this machine.
    pub fn allow_loads(&mut self, sources: Services) {
        self.sources = sources;
    }

    /// Executes an update, all of it or nothing. `LOAD` reads files of this machine, and documents that [`Rdf::allow_loads`] allows.
    pub fn update(
        &mut self,
        text: &str,
        graphs: Option<&Graphs>,
        options: &Options<'_>,
        sync: bool,
    ) -> Result<UpdateCounts> {
        self.writer()?;
        part::check_complete(&self.folder)?;
        let mut requested = RequestedGraphs::default();
        if RequestedGraphs::is_possible(text, graphs)
            && let Ok(update) = engine::syntax::update(text, None)
        {
            requested = RequestedGraphs::of_update(&update, graphs)?;
        }
        let principal = self
            .database
            .as_ref()
            .and_then(Database::principal)
            .cloned();
        let guard = principal.as_ref().map(|principal| PrincipalGuard {
            principal,
            stop: options.stop,
        });
        let options = Options {
            derived: meta::GRAPH,
            guard: guard.as_ref().map(|guard| guard as &dyn Guard),
            ..options.clone()
        };
        if !requested.is_empty() {
            self.data = self.all_with_meta(&requested, options.stop)?;
        }
        let sources = self.sources.clone();
        let stop = || (options.stop)().is_some();
        let mut read = |load: &Load<'_>| {
            if load.iri.starts_with("file:") {
                read_file(load)
            } else {
                sources.read_document(load, &stop)
            }
        };
        let done = update_in_place(&mut self.data, text, graphs, &mut read, &options);
        if !requested.is_empty() {
            meta::take_out(&mut self.data);
        }
        let (changes, added, removed) = done.map_err(error)?;
        if !changes.is_empty() {
            let record = log::encode(&self.data, &changes);
            let writer = self.writer()?;
            if let Err(e) = writer.append(&record, sync) {
                // A change that is not in the log is discarded.
                self.data = disk::read(&self.folder)?.data;
                return Err(e);
            }
            self.log_bytes = writer.log_bytes;
        }
        Ok(UpdateCounts { added, removed })
    }

    /// Loads files, all or nothing, and writes an image. In a folder of one part, only triples whose subjects belong to
    /// the part
    /// are kept. Inference runs on all data, with the rules chosen last.
    pub fn load(
        &mut self,
        files: &[(PathBuf, RdfFormat)],
        how: LoadOptions<'_>,
        limits: Limits<'_>,
        tick: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Loaded> {
        let LoadOptions {
            graph,
            lenient,
            infer,
            part,
        } = how;
        graph.map_or(Ok(()), meta::check_target)?;
        let (_, seed) = now_and_seed();
        let kind = match infer {
            Rules::AsBefore => self.data.inference(),
            Rules::Now(kind) => kind,
        };
        let part = self.part_to_load(part, kind)?;
        let blank = match part {
            Some(_) => part::blanks(files.iter().map(|f| &f.0)),
            None => format!("f{seed:x}n"),
        };
        let mut loader = Loader::new(self.data.asserted(), &blank, lenient);
        if let Some(part) = part {
            loader.keep(part);
        }
        loader.on_tick(Box::new(tick));
        loader.on_threads(threads());
        for (path, format) in files {
            let name = path.display().to_string();
            let mut from = open(path)?;
            let base = path
                .canonicalize()
                .ok()
                .map(|p| format!("file://{}", encoded(&p)));
            loader
                .read(&name, &mut *from, *format, graph, base.as_deref())
                .map_err(error)?;
        }
        let (mut data, loaded) = loader.finish();
        meta::check_names(&data)?;
        data.infer(kind, limits).map_err(error)?;
        // A load that fails before this line leaves the folder unchanged.
        let begins = part.filter(|_| self.data.is_empty());
        if let Some(part) = begins {
            part::write(&self.folder, part)?;
        }
        let before = std::mem::replace(&mut self.data, data);
        if let Err(e) = self.checkpoint() {
            self.data = before;
            if begins.is_some() {
                part::remove_mark(&self.folder)?;
            }
            return Err(e);
        }
        Ok(loaded)
    }

    /// Replaces the contents of one graph.
    pub fn replace_graph(
        &mut self,
        graph: &str,
        triples: &[engine::Triple],
        sync: bool,
    ) -> Result<UpdateCounts> {
        meta::check_target(graph)?;
        self.writer()?;
        part::check_complete(&self.folder)?;
        let mut data = self.data.clone();
        let (changes, added, removed) = replace(&mut data, graph, triples).map_err(error)?;
        let record = log::encode(&data, &changes);
        let writer = self.writer()?;
        writer.append(&record, sync)?;
        self.log_bytes = writer.log_bytes;
        self.data = data;
        Ok(UpdateCounts { added, removed })
    }

    /// Writes an image of all data, so that opening needs no log; returns its bytes.
    pub fn checkpoint(&mut self) -> Result<u64> {
        self.data.compact();
        let data = self.data.clone();
        let writer = self.writer()?;
        let bytes = writer.checkpoint(&data)?;
        self.number = writer.number;
        self.log_bytes = 0;
        Ok(bytes)
    }

    /// Deletes all RDF data.
    pub fn drop_all(&mut self) -> Result<()> {
        self.data = Dataset::default();
        self.checkpoint()?;
        part::remove_mark(&self.folder)
    }
}

/// A path, percent-encoded for an IRI.
pub fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for b in path.as_os_str().as_encoded_bytes() {
        if b.is_ascii_alphanumeric() || b"/._-~".contains(b) {
            text.push(char::from(*b));
        } else {
            let _ = write!(text, "%{b:02X}");
        }
    }
    text
}

/// Reads the file that `LOAD` names.
fn read_file(load: &Load<'_>) -> std::result::Result<Dataset, String> {
    let path = load
        .iri
        .strip_prefix("file://")
        .ok_or("only file: IRIs are read here; fetch the document first")?;
    let path = PathBuf::from(decoded(path));
    let format = format_of(&path)
        .ok_or_else(|| format!("its name does not tell the format; expected {ENDINGS}"))?;
    let mut from = open(&path).map_err(|e| e.to_string())?;
    load.read(load.iri, &mut *from, format)
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail
            .get(..2)
            .and_then(|h| std::str::from_utf8(h).ok())
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        if let (b'%', Some(b)) = (first, hex) {
            bytes.push(b);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
