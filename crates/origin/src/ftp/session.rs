//! Requests as FTP commands: the choice of command and the handling of refusals.

use super::capabilities::Capabilities;
use super::listing::{
    CommandResult, Format, Gather, MlstResult, ParsedListing, is_name_of, listing, mlst,
};
use super::login::LoggedIn;
use super::refusal::{self, Refusal};
use super::reply::{Lines, Reply, command};
use super::shared_listing::SharedListings;
use super::tls::Tls;
use super::{FtpSettings, LearnedBehaviour};
use crate::error::{Error, Result, printable};
use crate::origin_url::OriginUrl;
use crate::request::{MetadataRequest, PathMetadata};
use crate::session::Session;
use crate::stream::{Chain, Limits, Stream};
use esker_site_cache::entry::{Attributes, Kind, Wants};
use futures_util::future::BoxFuture;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::RwLock;
use tokio::time::timeout;

/// Maximum length of a path in a command, in bytes.
const PATH_BYTES_MAX: usize = 8 << 10;

/// Maximum number of remembered slow directories.
const SLOW_MAX: usize = 10_000;
/// Maximum number of commands that one request sends at once.
const COMMANDS: usize = 3;

/// The result of listing a directory.
pub(super) enum ListOutcome {
    Listed(ParsedListing, bool),
    /// No refusal and no listing: not a directory, or not readable.
    Nothing,
    Refused(Reply),
}

/// An FTP control channel.
pub(super) struct ControlChannel {
    pub(super) stream: Stream<Lines>,
    origin_url: OriginUrl,
    pub(super) origin: Box<str>,
    pub(super) peer: IpAddr,
    pub(super) tls: Option<Tls>,
    about: String,
    features: Vec<String>,
    pub(super) silence: Duration,
    exact: bool,
    /// Maximum number of open requests; one may take several commands at once.
    width: usize,
    learned: Arc<Mutex<LearnedBehaviour>>,
    capabilities: Mutex<Capabilities>,
    /// Held while a capability is probed, so that concurrent requests probe it once.
    probing: tokio::sync::Mutex<()>,
    /// Read-locked while a command is in flight; write-locked for a listing over a data channel.
    pub(super) data_gate: RwLock<()>,
    /// Whether the connection was abandoned.
    abandoned: AtomicBool,
    pub(super) shared_listings: SharedListings,
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() as i64)
}

/// Splits a path into parent directory and name; `None` for the root.
pub(super) fn divide(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = path.iter().rposition(|b| *b == b'/')?;
    let name = path.get(at + 1..).filter(|name| !name.is_empty())?;
    let parent = if at == 0 { b"/" } else { path.get(..at)? };
    Some((parent, name))
}

fn may_be_directory(kind: Kind) -> bool {
    matches!(kind, Kind::Directory | Kind::Unknown)
}

fn is_directory(found: &PathMetadata) -> bool {
    matches!(found, PathMetadata::Present(attributes) if may_be_directory(attributes.kind))
}

pub(super) fn command_with_path(words: &[u8], path: &[u8]) -> Vec<u8> {
    [words, b" ", path].concat()
}

impl ControlChannel {
    pub(super) fn new(
        origin_url: &OriginUrl,
        settings: &FtpSettings,
        made: LoggedIn,
        // `None`: one command at a time.
        width: Option<usize>,
        learned: Arc<Mutex<LearnedBehaviour>>,
    ) -> Self {
        let limits = Limits {
            in_flight: width.map_or(1, |width| width * COMMANDS),
            silence: settings.silence,
            buffer: 64 << 10,
            ..Limits::default()
        };
        let origin: Box<str> = origin_url.to_string().into();
        let before = learned.lock().unwrap_or_else(PoisonError::into_inner);
        let capabilities = match &before.capabilities {
            Some((features, capabilities)) if *features == made.features => capabilities.clone(),
            _ => Capabilities::new(&made.features),
        };
        drop(before);
        Self {
            stream: Stream::new(made.wire, made.lines, &origin, limits),
            origin_url: origin_url.clone(),
            origin,
            peer: made.peer,
            tls: made.tls,
            about: made.about,
            silence: settings.silence,
            exact: settings.exact,
            width: width.unwrap_or(1),
            learned,
            capabilities: Mutex::new(capabilities),
            features: made.features,
            probing: tokio::sync::Mutex::new(()),
            data_gate: RwLock::new(()),
            abandoned: AtomicBool::new(false),
            shared_listings: SharedListings::default(),
        }
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.capabilities
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Records an observation of the server's behaviour.
    pub(super) fn learn(&self, change: impl Fn(&mut Capabilities)) {
        let mut capabilities = self
            .capabilities
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = capabilities.clone();
        change(&mut capabilities);
        if *capabilities != before {
            let mut learned = self.learned();
            learned.capabilities = Some((self.features.clone(), capabilities.clone()));
        }
    }

    pub(super) async fn say<T: Send + 'static>(&self, chain: Chain<Lines, T>) -> Result<T> {
        let _gate = self.data_gate.read().await;
        self.stream.request(chain).await
    }

    pub(super) fn gather(&self, format: Format, wanted: Option<&[u8]>) -> Gather {
        Gather::new(format, wanted, &self.origin)
    }

    pub(super) fn denied(&self, path: &[u8], why: &str) -> Error {
        Error::Denied {
            origin: self.origin.clone(),
            why: format!("{}: {why}", printable(path)).into(),
        }
    }

    pub(super) fn busy(&self, reply: &Reply) -> Error {
        Error::Busy {
            origin: self.origin.clone(),
            why: reply.printable(),
        }
    }

    /// Whether `STAT` lists directories on the control channel; probed once at the root.
    pub(super) async fn stat_lists(&self) -> Result<bool> {
        if let Some(known) = self.capabilities().stat {
            return Ok(known);
        }
        let _probing = self.probing.lock().await;
        if let Some(known) = self.capabilities().stat {
            return Ok(known);
        }
        let gather = self.gather(Format::Unix(now()), Some(b"/"));
        let lists = match self.say(listing(b"STAT -a /", gather)).await? {
            CommandResult::Yes(listed) => listed.own.is_some(),
            CommandResult::No(reply) if refusal::read(&reply, b"/") == Refusal::Busy => {
                return Err(self.busy(&reply));
            }
            CommandResult::No(_) => false,
        };
        self.learn(|capabilities| capabilities.stat = Some(lists));
        Ok(lists)
    }

    /// Whether braces select names from a directory; probed once at the root.
    async fn can_select_names(&self) -> Result<bool> {
        if let Some(known) = self.capabilities().braces {
            return Ok(known);
        }
        let _probing = self.probing.lock().await;
        if let Some(known) = self.capabilities().braces {
            return Ok(known);
        }
        let gather = self.gather(Format::Unix(now()), None);
        let can_select_names = match self.say(listing(b"STAT -a /{?}", gather)).await? {
            // Names of one letter, and links, which are printed under other names.
            CommandResult::Yes(listed) => {
                let fits = |name: &[u8], kind| name.len() == 1 || kind == Kind::Link;
                let mut children = listed.children.iter();
                listed.own.is_some() && children.all(|c| fits(&c.name, c.attributes.kind))
            }
            CommandResult::No(_) => false,
        };
        self.learn(|capabilities| {
            capabilities.braces = Some(can_select_names);
            capabilities.stat = if can_select_names {
                Some(true)
            } else {
                capabilities.stat
            };
        });
        Ok(can_select_names)
    }

    pub(super) fn stat<'a>(&'a self, path: &'a [u8]) -> BoxFuture<'a, Result<PathMetadata>> {
        Box::pin(async move {
            let capabilities = self.capabilities();
            if capabilities.mlst
                && let Some(found) = self.by_mlst(path, &capabilities).await?
            {
                return Ok(found);
            }
            if self.can_select_names().await? {
                if !self.exact
                    && let Some(file) = self.size_and_time(path).await?
                {
                    return Ok(PathMetadata::Present(file));
                }
                return self.select_name(path).await;
            }
            if self.stat_lists().await? {
                return match self.stat_line(path).await? {
                    Ok(found) => Ok(found),
                    Err(reply) => {
                        let refusal = refusal::read(&reply, path);
                        self.refused(path, &reply, refusal).await
                    }
                };
            }
            self.basic_attributes(path, true).await
        })
    }

    /// Returns `None` if the server turns out not to support MLST.
    async fn by_mlst(
        &self,
        path: &[u8],
        capabilities: &Capabilities,
    ) -> Result<Option<PathMetadata>> {
        let doubt = !path.is_ascii() && capabilities.bytes != Some(true);
        let reply = match self.say(mlst(path, &self.origin)).await? {
            CommandResult::Yes(MlstResult::Facts(attributes)) => {
                if !capabilities.mlst_works || doubt {
                    self.learn(|capabilities| {
                        capabilities.mlst_works = true;
                        capabilities.bytes = if doubt {
                            Some(true)
                        } else {
                            capabilities.bytes
                        };
                    });
                }
                if capabilities.looks_like_a_link(&attributes)
                    && let Some(link) = self.link(path).await?
                {
                    return Ok(Some(PathMetadata::Present(link)));
                }
                return Ok(Some(PathMetadata::Present(attributes)));
            }
            CommandResult::Yes(MlstResult::OtherPath) => {
                self.learn(|capabilities| capabilities.bytes = Some(false));
                return self.by_bytes(path).await.map(Some);
            }
            CommandResult::No(reply) => reply,
        };
        let refusal = refusal::read(&reply, path);
        if refusal == Refusal::Unsupported && !capabilities.mlst_works {
            // The server announced MLST but does not support it.
            self.learn(|capabilities| {
                capabilities.mlst = false;
                capabilities.braces = None;
            });
            return Ok(None);
        }
        if refusal == Refusal::Absent && doubt {
            return self.by_bytes(path).await.map(Some);
        }
        self.refused(path, &reply, refusal).await.map(Some)
    }

    /// `ProFTPD`'s MLST mixes attributes of a link with those of its target; a listing is correct.
    async fn link(&self, path: &[u8]) -> Result<Option<Attributes>> {
        let is_link = |a: &Attributes| a.kind == Kind::Link;
        if self.stat_lists().await?
            && let Ok(PathMetadata::Present(found)) = self.stat_line(path).await?
            && found.kind != Kind::Directory
        {
            return Ok(Some(found).filter(is_link));
        }
        let Some((parent, name)) = divide(path) else {
            return Ok(None);
        };
        let outcome = self.list_shared(parent).await?;
        let ListOutcome::Listed(listed, _) = &*outcome else {
            return Ok(None);
        };
        let child = listed.children.iter().find(|c| &*c.name == name);
        Ok(child.map(|c| c.attributes.clone()).filter(is_link))
    }

    /// Selects one name from the parent directory. An empty result does not prove absence: names of links may be hidden.
    async fn select_name(&self, path: &[u8]) -> Result<PathMetadata> {
        let mut gather = self.gather(Format::Unix(now()), Some(path));
        let Some((parent, name)) = divide(path) else {
            let result = self.say(listing(b"STAT -a /{?}", gather)).await?;
            return match result {
                CommandResult::Yes(ParsedListing { own: Some(own), .. }) => {
                    Ok(PathMetadata::Present(own))
                }
                CommandResult::Yes(_) => Err(self.denied(path, "it lists nothing")),
                CommandResult::No(reply) => Err(self.denied(path, &reply.printable())),
            };
        };
        let special = |b: &u8| b"*?{},[]\\".contains(b) || *b == 255;
        let mut why = Reply::default();
        if !name.iter().any(special) {
            let slash: &[u8] = if parent == b"/" { b"" } else { b"/" };
            let words = [b"STAT -a ", parent, slash, b"{?,", name, b"}"].concat();
            gather = self.gather(Format::Unix(now()), Some(path));
            match self.say(listing(&words, gather)).await? {
                CommandResult::Yes(ParsedListing {
                    found: Some(found), ..
                }) => return Ok(PathMetadata::Present(found)),
                CommandResult::Yes(_) => {}
                CommandResult::No(reply) => match refusal::read(&reply, path) {
                    Refusal::Busy => return Err(self.busy(&reply)),
                    _ => why = reply,
                },
            }
        }
        self.by_parent(path, &why).await
    }

    /// `STAT` of the path itself; a directory is listed completely.
    pub(super) async fn stat_line(&self, path: &[u8]) -> Result<Result<PathMetadata, Reply>> {
        let gather = self.gather(Format::Unix(now()), Some(path));
        match self
            .say(listing(&command_with_path(b"STAT -a", path), gather))
            .await?
        {
            CommandResult::Yes(listed) => match listed.own.or(listed.found) {
                Some(found) => Ok(Ok(PathMetadata::Present(found))),
                None => Ok(Err(Reply::default())),
            },
            CommandResult::No(reply) => Ok(Err(reply)),
        }
    }

    /// Lists a directory; the flag says whether the listing is complete.
    pub(super) async fn read_directory(&self, path: &[u8]) -> Result<ListOutcome> {
        let capabilities = self.capabilities();
        if capabilities.mlsc {
            let gather = self.gather(Format::Facts, None);
            match self
                .say(listing(&command_with_path(b"MLSC", path), gather))
                .await?
            {
                CommandResult::Yes(listed) => {
                    if !capabilities.mlsc_works {
                        self.learn(|capabilities| capabilities.mlsc_works = true);
                    }
                    return Ok(self.outcome(listed, path));
                }
                CommandResult::No(reply) => {
                    let refusal = refusal::read(&reply, path);
                    if refusal != Refusal::Unsupported || capabilities.mlsc_works {
                        return Ok(ListOutcome::Refused(reply));
                    }
                    self.learn(|capabilities| capabilities.mlsc = false);
                }
            }
        }
        if self.stat_lists().await? {
            if capabilities.mlsd && self.learned().slow.contains(path) {
                return self.list_by_data(path).await;
            }
            let gather = self.gather(Format::Unix(now()), None);
            let asked = self.say(listing(&command_with_path(b"STAT -a", path), gather));
            let result = if capabilities.mlsd {
                let asked = timeout(self.silence / 4, asked).await;
                asked.unwrap_or_else(|_| Err(self.too_slow(path)))?
            } else {
                asked.await?
            };
            return Ok(match result {
                // Some servers take names for patterns here.
                CommandResult::Yes(listed)
                    if listed.own.is_none() && path.iter().any(|b| b"*?[{\\".contains(b)) =>
                {
                    self.list_by_data(path).await?
                }
                CommandResult::Yes(listed) => self.outcome(listed, path),
                CommandResult::No(reply) => ListOutcome::Refused(reply),
            });
        }
        self.list_by_data(path).await
    }

    /// The server reads through a directory and can be stopped only by disconnecting; the next request uses another command.
    fn too_slow(&self, path: &[u8]) -> Error {
        let mut learned = self.learned();
        if learned.slow.len() < SLOW_MAX {
            learned.slow.insert(path.into());
        }
        drop(learned);
        self.give_up();
        Error::Broken {
            origin: self.origin.clone(),
            why: format!("{}: a listing by STAT takes too long", printable(path)).into(),
        }
    }

    pub(super) fn give_up(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.stream.give_up();
    }

    fn learned(&self) -> MutexGuard<'_, LearnedBehaviour> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn list_by_data(&self, path: &[u8]) -> Result<ListOutcome> {
        if self.capabilities().mlsd {
            match self
                .by_data(&command_with_path(b"MLSD", path), Format::Facts)
                .await?
            {
                CommandResult::Yes(listed) => {
                    let complete = !listed.dropped;
                    return Ok(ListOutcome::Listed(listed, complete));
                }
                CommandResult::No(reply) if refusal::read(&reply, path) == Refusal::Unsupported => {
                    self.learn(|capabilities| capabilities.mlsd = false);
                }
                CommandResult::No(reply) => return Ok(ListOutcome::Refused(reply)),
            }
        }
        let words = command_with_path(b"LIST -a", path);
        match self.by_data(&words, Format::Unix(now())).await? {
            CommandResult::No(reply) => Ok(ListOutcome::Refused(reply)),
            CommandResult::Yes(listed) if listed.own.is_some() => Ok(self.outcome(listed, path)),
            // A file is listed as itself.
            CommandResult::Yes(listed) => match &listed.children[..] {
                [] => Ok(ListOutcome::Nothing),
                [one] if is_name_of(&one.name, path) => Ok(ListOutcome::Nothing),
                _ => Ok(ListOutcome::Listed(listed, false)),
            },
        }
    }

    /// A listing that includes the directory itself is complete, names with a leading dot included.
    fn outcome(&self, listed: ParsedListing, path: &[u8]) -> ListOutcome {
        if listed.unread > 0 {
            tracing::debug!(origin = %self.origin, path = %printable(path), lines = listed.unread, "lines of a listing were not understood");
        }
        if listed.own.is_none() {
            return ListOutcome::Nothing;
        }
        let complete = !listed.dropped;
        ListOutcome::Listed(listed, complete)
    }

    async fn list(&self, path: &[u8]) -> Result<PathMetadata> {
        let capabilities = self.capabilities();
        // Both commands are pipelined, since a link to a directory is not followed; not if both would be the same command.
        let plain = path.is_ascii() || capabilities.bytes == Some(true) || !capabilities.mlst;
        let (own, outcome) = if !plain {
            let own = self.stat(path).await?;
            if self.capabilities().bytes == Some(false) && is_directory(&own) {
                return Err(self.garbled(path));
            }
            (Some(own), self.read_directory(path).await?)
        } else if capabilities.mlst || capabilities.braces == Some(true) {
            let (own, outcome) = tokio::join!(self.stat(path), self.read_directory(path));
            (Some(own?), outcome?)
        } else {
            (None, self.read_directory(path).await?)
        };
        let own = match (own, &outcome) {
            (Some(own), _) => own,
            (None, ListOutcome::Listed(ParsedListing { own: Some(own), .. }, _)) => {
                PathMetadata::Present(own.clone())
            }
            (None, _) => self.stat(path).await?,
        };
        let PathMetadata::Present(attributes) = own else {
            return Ok(own);
        };
        let why = match outcome {
            _ if !may_be_directory(attributes.kind) => {
                return Ok(PathMetadata::Present(attributes));
            }
            ListOutcome::Listed(listed, complete) => {
                return Ok(PathMetadata::Listing {
                    attributes,
                    children: listed.children,
                    complete,
                });
            }
            ListOutcome::Refused(reply) if refusal::read(&reply, path) == Refusal::Busy => {
                return Err(self.busy(&reply));
            }
            ListOutcome::Refused(reply) => reply.printable(),
            ListOutcome::Nothing => "it denies access to this directory".into(),
        };
        Err(self.denied(path, &why))
    }
}

fn named(path: &[u8], why: &str) -> Error {
    Error::InvalidName {
        what: printable(path),
        why: why.into(),
    }
}

impl Session for ControlChannel {
    fn request(&self, request: MetadataRequest) -> BoxFuture<'_, Result<PathMetadata>> {
        Box::pin(async move {
            let path = &*request.path;
            if path.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
                return Err(named(
                    path,
                    "FTP cannot express a path with a line break in it",
                ));
            }
            if path.first() != Some(&b'/') || path.len() > PATH_BYTES_MAX {
                return Err(named(path, "not an absolute path, or too long"));
            }
            match request.wants {
                Wants::Stat => self.stat(path).await,
                Wants::List => self.list(path).await,
            }
        })
    }

    fn width(&self) -> usize {
        self.width
    }

    fn is_broken(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed) || self.stream.is_broken()
    }

    fn about(&self) -> String {
        let capabilities = self.capabilities();
        let stat = match (capabilities.mlst, capabilities.braces, capabilities.stat) {
            (true, ..) => "MLST",
            (_, Some(true), _) if !self.exact => "SIZE, MDTM, STAT",
            (_, Some(true), _) | (_, _, Some(true)) => "STAT",
            (_, _, Some(false)) => "SIZE, MDTM, CWD",
            (_, _, None) => "not tried yet",
        };
        let list = match (capabilities.mlsc, capabilities.stat, capabilities.mlsd) {
            (true, ..) => "MLSC",
            (_, Some(true), _) => "STAT",
            (_, None, _) => "not tried yet",
            (_, _, true) => "MLSD",
            _ => "LIST",
        };
        let ahead = match self.width {
            _ if self.stream.width() == 1 => "one command at a time".to_owned(),
            width => format!("{width} questions in flight"),
        };
        format!(
            "{}: {}; attributes by {stat}, listings by {list}; {ahead}",
            self.origin_url.scheme.name(),
            self.about
        )
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let quit = self.stream.request(command(b"QUIT", &self.origin));
            let _ = timeout(Duration::from_secs(2), quit).await;
        })
    }
}
