//! Questions as commands: by which way, and what a refusal means.

use super::can::Can;
use super::listing::{Fact, Format, Gather, Listed, Said, is_name_of, listing, mlst};
use super::login::Made;
use super::reply::{Lines, Reply, command};
use super::tls::Tls;
use super::together::Together;
use super::words::{self, Refusal};
use super::{Known, Settings};
use crate::error::{Error, Result, shown};
use crate::place::Place;
use crate::question::{Found, Question};
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

/// Bytes that a path in a command may have.
const PATH_BYTES_MAX: usize = 8 << 10;

/// Directories that are remembered to be slow.
const SLOW_MAX: usize = 10_000;
/// Commands that one question sends at once at most.
const COMMANDS: usize = 3;

/// What looking into a directory came to.
pub(super) enum Looked {
    Listed(Listed, bool),
    /// No words against it, but no listing: it is no directory, or one that may not be read.
    Nothing,
    Refused(Reply),
}

/// A control channel.
pub(super) struct Control {
    pub(super) stream: Stream<Lines>,
    place: Place,
    pub(super) origin: Box<str>,
    pub(super) peer: IpAddr,
    pub(super) tls: Option<Tls>,
    about: String,
    features: Vec<String>,
    pub(super) silence: Duration,
    exact: bool,
    /// Questions that may be open; one may take several commands at once.
    width: usize,
    known: Arc<Mutex<Known>>,
    can: Mutex<Can>,
    /// Held while something is tried: once is enough, however many ask.
    trying: tokio::sync::Mutex<()>,
    /// Held while a command is asked; taken alone for a listing over a data channel.
    pub(super) calm: RwLock<()>,
    /// It was given up.
    lost: AtomicBool,
    pub(super) together: Together,
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() as i64)
}

/// The directory that a path stands in, and its name there; nothing for the root.
pub(super) fn divide(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = path.iter().rposition(|b| *b == b'/')?;
    let name = path.get(at + 1..).filter(|name| !name.is_empty())?;
    let parent = if at == 0 { b"/" } else { path.get(..at)? };
    Some((parent, name))
}

fn may_be_directory(kind: Kind) -> bool {
    matches!(kind, Kind::Directory | Kind::Unknown)
}

fn is_directory(found: &Found) -> bool {
    matches!(found, Found::Present(attributes) if may_be_directory(attributes.kind))
}

pub(super) fn said(words: &[u8], path: &[u8]) -> Vec<u8> {
    [words, b" ", path].concat()
}

impl Control {
    pub(super) fn new(
        place: &Place,
        settings: &Settings,
        made: Made,
        // None: one command at a time.
        width: Option<usize>,
        known: Arc<Mutex<Known>>,
    ) -> Self {
        let limits = Limits {
            in_flight: width.map_or(1, |width| width * COMMANDS),
            silence: settings.silence,
            buffer: 64 << 10,
            ..Limits::default()
        };
        let origin: Box<str> = place.to_string().into();
        let before = known.lock().unwrap_or_else(PoisonError::into_inner);
        let can = match &before.can {
            Some((features, can)) if *features == made.features => can.clone(),
            _ => Can::new(&made.features),
        };
        drop(before);
        Self {
            stream: Stream::new(made.wire, made.lines, &origin, limits),
            place: place.clone(),
            origin,
            peer: made.peer,
            tls: made.tls,
            about: made.about,
            silence: settings.silence,
            exact: settings.exact,
            width: width.unwrap_or(1),
            known,
            can: Mutex::new(can),
            features: made.features,
            trying: tokio::sync::Mutex::new(()),
            calm: RwLock::new(()),
            lost: AtomicBool::new(false),
            together: Together::default(),
        }
    }

    pub(super) fn can(&self) -> Can {
        self.can
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Something was found out.
    pub(super) fn learn(&self, change: impl Fn(&mut Can)) {
        let mut can = self.can.lock().unwrap_or_else(PoisonError::into_inner);
        let before = can.clone();
        change(&mut can);
        if *can != before {
            let mut known = self.known();
            known.can = Some((self.features.clone(), can.clone()));
        }
    }

    pub(super) async fn say<T: Send + 'static>(&self, chain: Chain<Lines, T>) -> Result<T> {
        let _calm = self.calm.read().await;
        self.stream.ask(chain).await
    }

    pub(super) fn gather(&self, format: Format, wanted: Option<&[u8]>) -> Gather {
        Gather::new(format, wanted, &self.origin)
    }

    pub(super) fn denied(&self, path: &[u8], why: &str) -> Error {
        Error::Denied {
            origin: self.origin.clone(),
            why: format!("{}: {why}", shown(path)).into(),
        }
    }

    pub(super) fn busy(&self, reply: &Reply) -> Error {
        Error::Busy {
            origin: self.origin.clone(),
            why: reply.shown(),
        }
    }

    /// Whether `STAT` lists directories on the control channel; tried at the root once.
    pub(super) async fn stat_lists(&self) -> Result<bool> {
        if let Some(known) = self.can().stat {
            return Ok(known);
        }
        let _trying = self.trying.lock().await;
        if let Some(known) = self.can().stat {
            return Ok(known);
        }
        let gather = self.gather(Format::Unix(now()), Some(b"/"));
        let lists = match self.say(listing(b"STAT -a /", gather)).await? {
            Said::Yes(listed) => listed.own.is_some(),
            Said::No(reply) if words::read(&reply, b"/") == Refusal::Busy => {
                return Err(self.busy(&reply));
            }
            Said::No(_) => false,
        };
        self.learn(|can| can.stat = Some(lists));
        Ok(lists)
    }

    /// Whether names can be picked out of a directory by braces, tried at the root once.
    async fn picks(&self) -> Result<bool> {
        if let Some(known) = self.can().braces {
            return Ok(known);
        }
        let _trying = self.trying.lock().await;
        if let Some(known) = self.can().braces {
            return Ok(known);
        }
        let gather = self.gather(Format::Unix(now()), None);
        let picks = match self.say(listing(b"STAT -a /{?}", gather)).await? {
            // Names of one letter, and links, to which it gives other names.
            Said::Yes(listed) => {
                let fits = |name: &[u8], kind| name.len() == 1 || kind == Kind::Link;
                let mut children = listed.children.iter();
                listed.own.is_some() && children.all(|c| fits(&c.name, c.attributes.kind))
            }
            Said::No(_) => false,
        };
        self.learn(|can| {
            can.braces = Some(picks);
            can.stat = if picks { Some(true) } else { can.stat };
        });
        Ok(picks)
    }

    pub(super) fn stat<'a>(&'a self, path: &'a [u8]) -> BoxFuture<'a, Result<Found>> {
        Box::pin(async move {
            let can = self.can();
            if can.mlst
                && let Some(found) = self.by_mlst(path, &can).await?
            {
                return Ok(found);
            }
            if self.picks().await? {
                if !self.exact
                    && let Some(file) = self.quick(path).await?
                {
                    return Ok(Found::Present(file));
                }
                return self.pick(path).await;
            }
            if self.stat_lists().await? {
                return match self.stat_line(path).await? {
                    Ok(found) => Ok(found),
                    Err(reply) => {
                        let refusal = words::read(&reply, path);
                        self.refused(path, &reply, refusal).await
                    }
                };
            }
            self.parts(path, true).await
        })
    }

    /// Nothing if the server does not know MLST after all.
    async fn by_mlst(&self, path: &[u8], can: &Can) -> Result<Option<Found>> {
        let doubt = !path.is_ascii() && can.bytes != Some(true);
        let reply = match self.say(mlst(path, &self.origin)).await? {
            Said::Yes(Fact::Of(attributes)) => {
                if !can.mlst_works || doubt {
                    self.learn(|can| {
                        can.mlst_works = true;
                        can.bytes = if doubt { Some(true) } else { can.bytes };
                    });
                }
                if can.looks_like_a_link(&attributes)
                    && let Some(link) = self.link(path).await?
                {
                    return Ok(Some(Found::Present(link)));
                }
                return Ok(Some(Found::Present(attributes)));
            }
            Said::Yes(Fact::OfAnother) => {
                self.learn(|can| can.bytes = Some(false));
                return self.by_bytes(path).await.map(Some);
            }
            Said::No(reply) => reply,
        };
        let refusal = words::read(&reply, path);
        if refusal == Refusal::Unsupported && !can.mlst_works {
            // It said that it could, and cannot.
            self.learn(|can| {
                can.mlst = false;
                can.braces = None;
            });
            return Ok(None);
        }
        if refusal == Refusal::Absent && doubt {
            return self.by_bytes(path).await.map(Some);
        }
        self.refused(path, &reply, refusal).await.map(Some)
    }

    /// `ProFTPD`'s MLST mixes what a link says of itself with what stands where it leads: a listing of lines has it right.
    async fn link(&self, path: &[u8]) -> Result<Option<Attributes>> {
        let is_link = |a: &Attributes| a.kind == Kind::Link;
        if self.stat_lists().await?
            && let Ok(Found::Present(found)) = self.stat_line(path).await?
            && found.kind != Kind::Directory
        {
            return Ok(Some(found).filter(is_link));
        }
        let Some((parent, name)) = divide(path) else {
            return Ok(None);
        };
        let looked = self.look_together(parent).await?;
        let Looked::Listed(listed, _) = &*looked else {
            return Ok(None);
        };
        let child = listed.children.iter().find(|c| &*c.name == name);
        Ok(child.map(|c| c.attributes.clone()).filter(is_link))
    }

    /// One name out of the directory above. No name there does not mean that there is none: names of links may be hidden so.
    async fn pick(&self, path: &[u8]) -> Result<Found> {
        let mut gather = self.gather(Format::Unix(now()), Some(path));
        let Some((parent, name)) = divide(path) else {
            let said = self.say(listing(b"STAT -a /{?}", gather)).await?;
            return match said {
                Said::Yes(Listed { own: Some(own), .. }) => Ok(Found::Present(own)),
                Said::Yes(_) => Err(self.denied(path, "it shows nothing")),
                Said::No(reply) => Err(self.denied(path, &reply.shown())),
            };
        };
        let special = |b: &u8| b"*?{},[]\\".contains(b) || *b == 255;
        let mut why = Reply::default();
        if !name.iter().any(special) {
            let slash: &[u8] = if parent == b"/" { b"" } else { b"/" };
            let words = [b"STAT -a ", parent, slash, b"{?,", name, b"}"].concat();
            gather = self.gather(Format::Unix(now()), Some(path));
            match self.say(listing(&words, gather)).await? {
                Said::Yes(Listed {
                    found: Some(found), ..
                }) => return Ok(Found::Present(found)),
                Said::Yes(_) => {}
                Said::No(reply) => match words::read(&reply, path) {
                    Refusal::Busy => return Err(self.busy(&reply)),
                    _ => why = reply,
                },
            }
        }
        self.by_parent(path, &why).await
    }

    /// `STAT` of the path itself: a directory is all listed for it.
    pub(super) async fn stat_line(&self, path: &[u8]) -> Result<Result<Found, Reply>> {
        let gather = self.gather(Format::Unix(now()), Some(path));
        match self.say(listing(&said(b"STAT -a", path), gather)).await? {
            Said::Yes(listed) => match listed.own.or(listed.found) {
                Some(found) => Ok(Ok(Found::Present(found))),
                None => Ok(Err(Reply::default())),
            },
            Said::No(reply) => Ok(Err(reply)),
        }
    }

    /// What stands in a directory, and whether that is all.
    pub(super) async fn look(&self, path: &[u8]) -> Result<Looked> {
        let can = self.can();
        if can.mlsc {
            let gather = self.gather(Format::Facts, None);
            match self.say(listing(&said(b"MLSC", path), gather)).await? {
                Said::Yes(listed) => {
                    if !can.mlsc_works {
                        self.learn(|can| can.mlsc_works = true);
                    }
                    return Ok(self.looked(listed, path));
                }
                Said::No(reply) => {
                    let refusal = words::read(&reply, path);
                    if refusal != Refusal::Unsupported || can.mlsc_works {
                        return Ok(Looked::Refused(reply));
                    }
                    self.learn(|can| can.mlsc = false);
                }
            }
        }
        if self.stat_lists().await? {
            if can.mlsd && self.known().slow.contains(path) {
                return self.look_by_data(path).await;
            }
            let gather = self.gather(Format::Unix(now()), None);
            let asked = self.say(listing(&said(b"STAT -a", path), gather));
            let said = if can.mlsd {
                let asked = timeout(self.silence / 4, asked).await;
                asked.unwrap_or_else(|_| Err(self.too_slow(path)))?
            } else {
                asked.await?
            };
            return Ok(match said {
                // Some take names for patterns here.
                Said::Yes(listed)
                    if listed.own.is_none() && path.iter().any(|b| b"*?[{\\".contains(b)) =>
                {
                    self.look_by_data(path).await?
                }
                Said::Yes(listed) => self.looked(listed, path),
                Said::No(reply) => Looked::Refused(reply),
            });
        }
        self.look_by_data(path).await
    }

    /// The server reads through a directory, and there is no way to stop it but to go away; next time it is asked otherwise.
    fn too_slow(&self, path: &[u8]) -> Error {
        let mut known = self.known();
        if known.slow.len() < SLOW_MAX {
            known.slow.insert(path.into());
        }
        drop(known);
        self.give_up();
        Error::Broken {
            origin: self.origin.clone(),
            why: format!("{}: a listing by STAT takes too long", shown(path)).into(),
        }
    }

    pub(super) fn give_up(&self) {
        self.lost.store(true, Ordering::Relaxed);
        self.stream.give_up();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look_by_data(&self, path: &[u8]) -> Result<Looked> {
        if self.can().mlsd {
            match self.by_data(&said(b"MLSD", path), Format::Facts).await? {
                Said::Yes(listed) => {
                    let complete = !listed.dropped;
                    return Ok(Looked::Listed(listed, complete));
                }
                Said::No(reply) if words::read(&reply, path) == Refusal::Unsupported => {
                    self.learn(|can| can.mlsd = false);
                }
                Said::No(reply) => return Ok(Looked::Refused(reply)),
            }
        }
        let words = said(b"LIST -a", path);
        match self.by_data(&words, Format::Unix(now())).await? {
            Said::No(reply) => Ok(Looked::Refused(reply)),
            Said::Yes(listed) if listed.own.is_some() => Ok(self.looked(listed, path)),
            // A file is listed as itself.
            Said::Yes(listed) => match &listed.children[..] {
                [] => Ok(Looked::Nothing),
                [one] if is_name_of(&one.name, path) => Ok(Looked::Nothing),
                _ => Ok(Looked::Listed(listed, false)),
            },
        }
    }

    /// A listing in which the directory itself stands shows all, names with a dot in front as well.
    fn looked(&self, listed: Listed, path: &[u8]) -> Looked {
        if listed.unread > 0 {
            tracing::debug!(origin = %self.origin, path = %shown(path), lines = listed.unread, "lines of a listing were not understood");
        }
        if listed.own.is_none() {
            return Looked::Nothing;
        }
        let complete = !listed.dropped;
        Looked::Listed(listed, complete)
    }

    async fn list(&self, path: &[u8]) -> Result<Found> {
        let can = self.can();
        // Both at once: what may be no directory but a link to one is not followed. Not where both would be the same command.
        let plain = path.is_ascii() || can.bytes == Some(true) || !can.mlst;
        let (own, looked) = if !plain {
            let own = self.stat(path).await?;
            if self.can().bytes == Some(false) && is_directory(&own) {
                return Err(self.garbled(path));
            }
            (Some(own), self.look(path).await?)
        } else if can.mlst || can.braces == Some(true) {
            let (own, looked) = tokio::join!(self.stat(path), self.look(path));
            (Some(own?), looked?)
        } else {
            (None, self.look(path).await?)
        };
        let own = match (own, &looked) {
            (Some(own), _) => own,
            (None, Looked::Listed(Listed { own: Some(own), .. }, _)) => Found::Present(own.clone()),
            (None, _) => self.stat(path).await?,
        };
        let Found::Present(attributes) = own else {
            return Ok(own);
        };
        let why = match looked {
            _ if !may_be_directory(attributes.kind) => return Ok(Found::Present(attributes)),
            Looked::Listed(listed, complete) => {
                return Ok(Found::Listing {
                    attributes,
                    children: listed.children,
                    complete,
                });
            }
            Looked::Refused(reply) if words::read(&reply, path) == Refusal::Busy => {
                return Err(self.busy(&reply));
            }
            Looked::Refused(reply) => reply.shown(),
            Looked::Nothing => "it does not let this directory be read".into(),
        };
        Err(self.denied(path, &why))
    }
}

fn named(path: &[u8], why: &str) -> Error {
    Error::Named {
        what: shown(path),
        why: why.into(),
    }
}

impl Session for Control {
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<Found>> {
        Box::pin(async move {
            let path = &*question.path;
            if path.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
                return Err(named(
                    path,
                    "FTP cannot say a path with an end of line in it",
                ));
            }
            if path.first() != Some(&b'/') || path.len() > PATH_BYTES_MAX {
                return Err(named(path, "not an absolute path, or too long a one"));
            }
            match question.wants {
                Wants::Stat => self.stat(path).await,
                Wants::List => self.list(path).await,
            }
        })
    }

    fn width(&self) -> usize {
        self.width
    }

    fn is_broken(&self) -> bool {
        self.lost.load(Ordering::Relaxed) || self.stream.is_broken()
    }

    fn about(&self) -> String {
        let can = self.can();
        let stat = match (can.mlst, can.braces, can.stat) {
            (true, ..) => "MLST",
            (_, Some(true), _) if !self.exact => "SIZE, MDTM, STAT",
            (_, Some(true), _) | (_, _, Some(true)) => "STAT",
            (_, _, Some(false)) => "SIZE, MDTM, CWD",
            (_, _, None) => "not tried yet",
        };
        let list = match (can.mlsc, can.stat, can.mlsd) {
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
            self.place.scheme.name(),
            self.about
        )
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let quit = self.stream.ask(command(b"QUIT", &self.origin));
            let _ = timeout(Duration::from_secs(2), quit).await;
        })
    }
}
