//! RDF data in memory, with an image and a log in the database's folder.

pub(crate) mod disk;
mod live;
pub mod meta;
pub(crate) mod part;
mod rights;
mod service;
mod source;
#[cfg(test)]
mod tests;

pub use live::{Add, Added, Done, Heard, How, Live, Request, STACK, Stop};
pub use rights::{DEFAULT, RIGHTS};
pub use service::Services;
pub use source::{ENDINGS, Packing, files, format_of, open, unpacked};

use crate::database::Database;
use disk::Writer;
use esker_model::namespace::Errno;
use esker_model::{Error, Result};
use esker_rdf::infer::{Inference, Limits};
use esker_rdf::parse::{Loaded, Loader};
use esker_rdf::{
    Dataset, DateTime, Graphs, Guard, Options, Part, RdfFormat, log, replace, update_in_place,
};
use esker_rpc::Address;
use meta::{Meta, Wanted};
use rights::AskerGuard;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

pub use esker_rdf as engine;

/// Bytes that inferred triples may have while they are found.
const MEMORY: usize = 4 << 30;

/// A database's RDF data, in memory.
#[derive(Debug)]
pub struct Rdf {
    data: Dataset,
    folder: PathBuf,
    number: u64,
    log_bytes: u64,
    writer: Option<Writer>,
    /// Where the metadata graph comes from, and what was made of it.
    database: Option<Database>,
    meta: Meta,
}

/// What an update did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// Quads that are new.
    pub added: usize,
    /// Quads that are gone.
    pub removed: usize,
}

/// By which rules a load infers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// By those of the load before.
    #[default]
    AsBefore,
    /// By these, or by none, from now on.
    Now(Option<Inference>),
}

/// How files are loaded.
#[derive(Debug, Default, Clone, Copy)]
pub struct Loading<'a> {
    /// The graph for triples that name none; without it the default graph.
    pub graph: Option<&'a str>,
    /// Broken lines are passed over.
    pub lenient: bool,
    /// What is inferred.
    pub infer: Rules,
    /// Only triples of this part, in a folder that holds no other.
    pub part: Option<Part>,
}

/// A log of more bytes than this, and than the image's half, becomes an image when a writer opens it.
const LOG_MAX: u64 = 64 << 20;

/// Threads that one load or query may have.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// An engine's error as the library has them.
pub fn error(e: engine::Error) -> Error {
    match e {
        engine::Error::Stopped(_) => Error::Interrupted,
        engine::Error::Denied(graph) => Error::File(Errno::Access.at(graph)),
        other => Error::Invalid(other.to_string()),
    }
}

/// The present time as `NOW()` says it, and a seed.
pub fn moment() -> (DateTime, u64) {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let seed = since.as_nanos() as u64 ^ (u64::from(std::process::id()) << 40);
    (DateTime::now(), seed)
}

impl Database {
    /// The database's RDF data, to be read.
    pub fn rdf(&self) -> Result<Rdf> {
        let mut rdf = Rdf::read(&self.rdf_folder()?)?;
        rdf.database = Some(self.clone());
        Ok(rdf)
    }

    /// The database's RDF data, to be changed. One process at a time has it so.
    pub fn rdf_to_change(&self) -> Result<Rdf> {
        let mut rdf = Rdf::change(&self.rdf_folder()?)?;
        rdf.database = Some(self.clone());
        Ok(rdf)
    }

    /// The database's RDF data, held in memory by this process for as long as the database is open: opened at the first
    /// call, which is the only one that waits long.
    pub fn rdf_live(&self) -> Result<Arc<Live>> {
        let mut live = self.live().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = &*live {
            return Ok(Arc::clone(live));
        }
        let opened = Arc::new(Live::open(&self.rdf_folder()?, self.is_sync())?);
        *live = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// [`Self::rdf_live`], if it was called before and has answered.
    pub fn rdf_opened(&self) -> Option<Arc<Live>> {
        self.live().try_lock().ok()?.clone()
    }

    /// What a query asks: the one place where its snapshot is taken. Of the metadata graph it has what this handle's asker
    /// may see ([`Self::on_behalf_of`]).
    pub fn rdf_snapshot_for(
        &self,
        text: &str,
        query: &engine::Query,
        graphs: Option<&Graphs>,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Arc<Dataset>> {
        let live = self.rdf_live()?;
        let data = if Wanted::is_possible(text, graphs) {
            live.with_meta(self, &Wanted::of_query(query, graphs)?, stop)?
        } else {
            live.snapshot()
        };
        self.rdf_readable(data, stop)
    }

    /// The data without the graphs that this handle's asker may not read.
    fn rdf_readable(
        &self,
        data: Arc<Dataset>,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Arc<Dataset>> {
        let Some(asker) = self.asker() else {
            return Ok(data);
        };
        let data = rights::readable((*data).clone(), Some(asker), stop);
        data.map(Arc::new).map_err(error)
    }

    /// The data for who names one graph, or none, and asks no query.
    pub fn rdf_snapshot_with(
        &self,
        graph: Option<&str>,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Arc<Dataset>> {
        let wanted = graph.map_or_else(|| Ok(Wanted::default()), Wanted::of_graph)?;
        let data = self.rdf_live()?.with_meta(self, &wanted, stop)?;
        self.rdf_readable(data, stop)
    }

    fn rdf_folder(&self) -> Result<PathBuf> {
        let folder = self.folder();
        let shown = folder.path.to_string_lossy();
        if Address::is_address(&shown) {
            return Err(Error::Target(format!(
                "this works on a database's folder only: `{shown}` is a server; run the command where its folder lies, with \
                 the folder as target"
            )));
        }
        folder.check_alone()?;
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

    /// The data.
    pub const fn data(&self) -> &Dataset {
        &self.data
    }

    /// The data that a query asks: with the metadata graphs that it names.
    pub fn asked(
        &mut self,
        text: &str,
        graphs: Option<&Graphs>,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Dataset> {
        if !Wanted::is_possible(text, graphs) {
            return self.readable(self.data.clone(), stop);
        }
        // What is wrong with the text is said by who answers it.
        let wanted = match engine::syntax::query(text, None) {
            Ok(query) => Wanted::of_query(&query, graphs)?,
            Err(_) => Wanted::default(),
        };
        self.with_meta(&wanted, stop)
    }

    /// The data with metadata graphs.
    pub fn with_meta(
        &mut self,
        wanted: &Wanted,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Dataset> {
        let data = self.whole(wanted, stop)?;
        self.readable(data, stop)
    }

    /// All data with metadata graphs.
    fn whole(
        &mut self,
        wanted: &Wanted,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Dataset> {
        match &self.database {
            Some(database) if !wanted.is_empty() => {
                self.meta.snapshot(&mut self.data, database, wanted, stop)
            }
            _ => Ok(self.data.clone()),
        }
    }

    /// Without the graphs that the asker may not read.
    fn readable(
        &self,
        data: Dataset,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Dataset> {
        let asker = self.database.as_ref().and_then(Database::asker);
        rights::readable(data, asker, stop).map_err(error)
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of the log behind the image.
    pub const fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    fn writer(&mut self) -> Result<&mut Writer> {
        let folder = self.folder.display().to_string();
        self.writer
            .as_mut()
            .ok_or_else(|| Error::Invalid(format!("`{folder}` was opened to be read")))
    }

    /// Does an update, whole or not at all. What `LOAD` names must be a file of this machine.
    pub fn update(
        &mut self,
        text: &str,
        graphs: Option<&Graphs>,
        options: &Options<'_>,
        sync: bool,
    ) -> Result<Changed> {
        self.writer()?;
        part::whole(&self.folder)?;
        let mut wanted = Wanted::default();
        if Wanted::is_possible(text, graphs)
            && let Ok(update) = engine::syntax::update(text, None)
        {
            wanted = Wanted::of_update(&update, graphs)?;
        }
        let asker = self.database.as_ref().and_then(Database::asker).cloned();
        let guard = asker.as_ref().map(|asker| AskerGuard {
            asker,
            stop: options.stop,
        });
        let options = Options {
            derived: meta::GRAPH,
            guard: guard.as_ref().map(|guard| guard as &dyn Guard),
            ..options.clone()
        };
        if !wanted.is_empty() {
            self.data = self.whole(&wanted, options.stop)?;
        }
        let done = update_in_place(&mut self.data, text, graphs, &mut fetch, &options);
        if !wanted.is_empty() {
            meta::take_out(&mut self.data);
        }
        let (changes, added, removed) = done.map_err(error)?;
        if !changes.is_empty() {
            let record = log::encode(&self.data, &changes);
            let writer = self.writer()?;
            if let Err(e) = writer.append(&record, sync) {
                // What is not in the log did not happen.
                self.data = disk::read(&self.folder)?.data;
                return Err(e);
            }
            self.log_bytes = writer.log_bytes;
        }
        Ok(Changed { added, removed })
    }

    /// Adds files, all or nothing, and writes an image with them: of a folder that holds a part, or shall hold one, only
    /// triples whose subjects belong to it. What is inferred is found again from all data, by the
    /// rules that were asked for last.
    pub fn load(
        &mut self,
        files: &[(PathBuf, RdfFormat)],
        how: Loading<'_>,
        limits: Limits<'_>,
        tick: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Loaded> {
        let Loading {
            graph,
            lenient,
            infer,
            part,
        } = how;
        graph.map_or(Ok(()), meta::check_target)?;
        let (_, seed) = moment();
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
        // A load that fails before this leaves the folder what it was.
        let begins = part.filter(|_| self.data.is_empty());
        if let Some(part) = begins {
            part::write(&self.folder, part)?;
        }
        let before = std::mem::replace(&mut self.data, data);
        if let Err(e) = self.checkpoint() {
            self.data = before;
            if begins.is_some() {
                part::forget(&self.folder)?;
            }
            return Err(e);
        }
        Ok(loaded)
    }

    /// Makes one graph what these triples say.
    pub fn replace_graph(
        &mut self,
        graph: &str,
        triples: &[engine::Triple],
        sync: bool,
    ) -> Result<Changed> {
        meta::check_target(graph)?;
        self.writer()?;
        part::whole(&self.folder)?;
        let mut data = self.data.clone();
        let (changes, added, removed) = replace(&mut data, graph, triples).map_err(error)?;
        let record = log::encode(&data, &changes);
        let writer = self.writer()?;
        writer.append(&record, sync)?;
        self.log_bytes = writer.log_bytes;
        self.data = data;
        Ok(Changed { added, removed })
    }

    /// Writes an image of all data, so that opening it needs no log. Its bytes.
    pub fn checkpoint(&mut self) -> Result<u64> {
        self.data.settle();
        let data = self.data.clone();
        let writer = self.writer()?;
        let bytes = writer.checkpoint(&data)?;
        self.number = writer.number;
        self.log_bytes = 0;
        Ok(bytes)
    }

    /// Forgets all RDF data.
    pub fn drop_all(&mut self) -> Result<()> {
        self.data = Dataset::default();
        self.checkpoint()?;
        part::forget(&self.folder)
    }
}

/// A path as a part of an IRI.
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

/// What `LOAD` names.
fn fetch(iri: &str) -> std::result::Result<(Box<dyn std::io::Read>, RdfFormat), String> {
    let path = iri
        .strip_prefix("file://")
        .ok_or("only file: IRIs are read; fetch the file first")?;
    let path = PathBuf::from(decoded(path));
    let format =
        format_of(&path).ok_or_else(|| format!("its name says no format; expected {ENDINGS}"))?;
    let from = open(&path).map_err(|e| e.to_string())?;
    Ok((from, format))
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
