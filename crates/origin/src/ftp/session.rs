//! Questions as commands: by which way, and what a refusal means.

use super::listing::{Fact, Format, Gather, Listed, Said, is_name_of, listing, mlst};
use super::login::{Made, Wire};
use super::reply::{Lines, Reply, command};
use super::tls::Tls;
use super::words::{self, Refusal};
use super::{Known, Settings, data, time};
use crate::error::{Error, Result, shown};
use crate::place::Place;
use crate::question::{Found, Question};
use crate::session::Session;
use crate::stream::{Chain, Limits, Stream};
use esker_site_cache::entry::{Attributes, Kind, Wants};
use futures_util::future::BoxFuture;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpStream;
use tokio::sync::RwLock;
use tokio::time::timeout;

/// Bytes that a path in a command may have.
const PATH_BYTES_MAX: usize = 8 << 10;

/// Commands that one question sends at once at most.
const COMMANDS: usize = 3;

/// What a server has been found to do. What FEAT says is only where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a thing that a server can do or not"
)]
pub(super) struct Can {
    mlst: bool,
    /// MLST has been seen to work: one refusal does not mean that it is not known.
    mlst_works: bool,
    mlsc: bool,
    mlsc_works: bool,
    mlsd: bool,
    /// `STAT` of a directory lists it, with itself; not known before it was tried.
    stat: Option<bool>,
    /// `STAT -a dir/{?,name}` prints these names alone: vsftpd.
    braces: Option<bool>,
    epsv: bool,
    /// MLST says of links that they are links.
    slink: bool,
    /// Paths that are no ASCII arrive as they are. Globus loses such bytes, and answers about another path.
    bytes: Option<bool>,
}

impl Can {
    fn new(features: &[String]) -> Self {
        let has = |name: &str| {
            let mut words = features.iter().filter_map(|f| f.split(' ').next());
            words.any(|word| word.eq_ignore_ascii_case(name))
        };
        let mlst = has("MLST");
        Self {
            mlst,
            mlst_works: false,
            mlsc: has("MLSC"),
            mlsc_works: false,
            mlsd: mlst || has("MLSD"),
            stat: None,
            braces: mlst.then_some(false),
            epsv: true,
            bytes: None,
            slink: features.iter().any(|f| {
                let f = f.to_ascii_lowercase();
                f.starts_with("mlst ") && f.contains("unix.slink")
            }),
        }
    }

    /// Links have all permissions, and little else has.
    fn looks_like_a_link(&self, attributes: &Attributes) -> bool {
        !self.slink
            && attributes.mode == Some(0o777)
            && matches!(attributes.kind, Kind::File | Kind::Directory)
    }
}

/// What looking into a directory came to.
enum Looked {
    Listed(Listed, bool),
    /// No words against it, but no listing: it is no directory, or one that may not be read.
    Nothing,
    Refused(Reply),
}

/// A control channel.
pub(super) struct Control {
    stream: Stream<Lines>,
    place: Place,
    origin: Box<str>,
    peer: IpAddr,
    tls: Option<Tls>,
    about: String,
    silence: Duration,
    exact: bool,
    /// Questions that may be open; one may take several commands at once.
    width: usize,
    known: Arc<Mutex<Known>>,
    can: Mutex<Can>,
    /// Held while a command is asked; taken alone for a listing over a data channel.
    calm: RwLock<()>,
    /// A listing over a data channel was given up half-way, so that replies no longer match.
    lost: AtomicBool,
}

/// Gives up the connection unless the listing came to an end.
struct Midway<'a>(&'a AtomicBool, bool);

impl Drop for Midway<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() as i64)
}

/// The directory that a path stands in, and its name there; nothing for the root.
fn divide(path: &[u8]) -> Option<(&[u8], &[u8])> {
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

fn said(words: &[u8], path: &[u8]) -> Vec<u8> {
    [words, b" ", path].concat()
}

impl Control {
    pub(super) fn new(
        place: &Place,
        settings: &Settings,
        made: Made,
        width: usize,
        known: Arc<Mutex<Known>>,
    ) -> Self {
        let limits = Limits {
            in_flight: if width > 1 { width * COMMANDS } else { 1 },
            silence: settings.silence,
            buffer: 64 << 10,
            ..Limits::default()
        };
        let origin: Box<str> = place.to_string().into();
        let before = known.lock().unwrap_or_else(PoisonError::into_inner);
        let can = before.can.clone();
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
            width,
            known,
            can: Mutex::new(can.unwrap_or_else(|| Can::new(&made.features))),
            calm: RwLock::new(()),
            lost: AtomicBool::new(false),
        }
    }

    fn can(&self) -> Can {
        self.can
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Something was found out.
    fn learn(&self, change: impl Fn(&mut Can)) {
        let mut can = self.can.lock().unwrap_or_else(PoisonError::into_inner);
        let before = can.clone();
        change(&mut can);
        if *can != before {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.can = Some(can.clone());
        }
    }

    async fn say<T: Send + 'static>(&self, chain: Chain<Lines, T>) -> Result<T> {
        let _calm = self.calm.read().await;
        self.stream.ask(chain).await
    }

    fn gather(&self, format: Format, wanted: Option<&[u8]>) -> Gather {
        Gather::new(format, wanted, &self.origin)
    }

    fn denied(&self, path: &[u8], why: &str) -> Error {
        Error::Denied {
            origin: self.origin.clone(),
            why: format!("{}: {why}", shown(path)).into(),
        }
    }

    fn busy(&self, reply: &Reply) -> Error {
        Error::Busy {
            origin: self.origin.clone(),
            why: reply.shown(),
        }
    }

    /// Whether `STAT` lists directories on the control channel; tried at the root once.
    async fn stat_lists(&self) -> Result<bool> {
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

    fn stat<'a>(&'a self, path: &'a [u8]) -> BoxFuture<'a, Result<Found>> {
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

    /// About a path of which the server may not have got all bytes: the directory above has its name, if that can be asked for.
    async fn by_bytes(&self, path: &[u8]) -> Result<Found> {
        let Some((parent, name)) = divide(path) else {
            return Ok(Found::Absent);
        };
        if !parent.is_ascii() {
            let above = self.stat(parent).await?;
            return match (above, self.can().bytes) {
                (Found::Absent, _) => Ok(Found::Absent),
                (_, Some(true)) => Ok(Found::Absent),
                _ => Err(self.garbled(path)),
            };
        }
        match self.look(parent).await? {
            Looked::Listed(listed, complete) => {
                let mut children = listed.children.into_iter();
                if let Some(child) = children.find(|c| &*c.name == name) {
                    self.learn(|can| can.bytes = Some(false));
                    return Ok(Found::Present(child.attributes));
                }
                if complete {
                    Ok(Found::Absent)
                } else {
                    Err(self.garbled(path))
                }
            }
            Looked::Nothing | Looked::Refused(_) => match self.stat(parent).await? {
                Found::Present(Attributes {
                    kind: Kind::Directory | Kind::Link | Kind::Unknown,
                    ..
                }) => Err(self.denied(path, "the directory above cannot be read")),
                _ => Ok(Found::Absent),
            },
        }
    }

    fn garbled(&self, path: &[u8]) -> Error {
        Error::Unsupported {
            origin: self.origin.clone(),
            why: format!(
                "{}: it loses the bytes of a path that are not ASCII",
                shown(path)
            )
            .into(),
        }
    }

    /// ProFTPD's MLST mixes what a link says of itself with what stands where it leads: a listing of lines has it right.
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
        let Looked::Listed(listed, _) = self.look(parent).await? else {
            return Ok(None);
        };
        let mut children = listed.children.into_iter();
        let child = children.find(|c| &*c.name == name);
        Ok(child.map(|c| c.attributes).filter(is_link))
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
    async fn stat_line(&self, path: &[u8]) -> Result<Result<Found, Reply>> {
        let gather = self.gather(Format::Unix(now()), Some(path));
        match self.say(listing(&said(b"STAT -a", path), gather)).await? {
            Said::Yes(listed) => match listed.own.or(listed.found) {
                Some(found) => Ok(Ok(Found::Present(found))),
                None => Ok(Err(Reply::default())),
            },
            Said::No(reply) => Ok(Err(reply)),
        }
    }

    /// A refusal, and what can be found out about its meaning.
    async fn refused(&self, path: &[u8], reply: &Reply, refusal: Refusal) -> Result<Found> {
        match refusal {
            Refusal::Absent => return Ok(Found::Absent),
            Refusal::Denied => return Err(self.denied(path, &reply.shown())),
            Refusal::Busy => return Err(self.busy(reply)),
            Refusal::Unsupported | Refusal::Unclear => {}
        }
        // Another command may have clearer words.
        if self.stat_lists().await? {
            match self.stat_line(path).await? {
                Ok(found) => return Ok(found),
                Err(reply) => match words::read(&reply, path) {
                    Refusal::Absent => return Ok(Found::Absent),
                    Refusal::Denied => return Err(self.denied(path, &reply.shown())),
                    Refusal::Busy if reply.code != 0 => return Err(self.busy(&reply)),
                    _ => {}
                },
            }
        }
        self.by_parent(path, reply).await
    }

    /// What the directory above says: if it cannot be seen, neither can be said that something is not in it.
    async fn by_parent(&self, path: &[u8], why: &Reply) -> Result<Found> {
        let Some((parent, name)) = divide(path) else {
            return Err(self.denied(path, &why.shown()));
        };
        match self.look(parent).await? {
            Looked::Listed(listed, complete) => {
                let at = listed.children.binary_search_by(|c| (*c.name).cmp(name));
                match at {
                    Ok(at) => {
                        let child = listed.children.into_iter().nth(at);
                        let attributes = child.map(|c| c.attributes).unwrap_or_default();
                        Ok(Found::Present(attributes))
                    }
                    Err(_) if complete => Ok(Found::Absent),
                    Err(_) => self.parts(path, false).await,
                }
            }
            Looked::Refused(reply) if words::read(&reply, parent) == Refusal::Busy => {
                Err(self.busy(&reply))
            }
            Looked::Nothing | Looked::Refused(_) => match self.stat(parent).await {
                Ok(Found::Absent) => Ok(Found::Absent),
                Ok(Found::Present(Attributes {
                    kind: Kind::File | Kind::Other,
                    ..
                })) => Ok(Found::Absent),
                // Names in it can be reached even if it cannot be read.
                Ok(_) => self.parts(path, false).await,
                Err(error) if error.is_passing() => Err(error),
                Err(_) => self.parts(path, false).await,
            },
        }
    }

    /// Size and time of a file, or of that to which a link leads: no directory has to be read for them.
    async fn quick(&self, path: &[u8]) -> Result<Option<Attributes>> {
        let ask = |words: &[u8]| {
            let words = said(words, path);
            async move { self.say(command(&words, &self.origin)).await }
        };
        let (size, modified) = tokio::join!(ask(b"SIZE"), ask(b"MDTM"));
        let (size, modified) = (size?, modified?);
        if size.code != 213 || modified.code != 213 {
            return Ok(None);
        }
        Ok(Some(Attributes {
            size: time::digits(size.text().trim_ascii()),
            modified: time::stamp(modified.text().trim_ascii()),
            ..Attributes::of(Kind::File)
        }))
    }

    /// Size, time, and whether one can go there: all that old servers tell.
    async fn parts(&self, path: &[u8], ask_parent: bool) -> Result<Found> {
        let ask = |words: &[u8]| {
            let words = said(words, path);
            async move { self.say(command(&words, &self.origin)).await }
        };
        let (size, modified, go) = tokio::join!(ask(b"SIZE"), ask(b"MDTM"), ask(b"CWD"));
        let (size, modified_reply, go) = (size?, modified?, go?);
        if go.is_well() {
            return Ok(Found::Present(Attributes::of(Kind::Directory)));
        }
        let number = |reply: &Reply| (reply.code == 213).then(|| reply.text());
        let modified = number(&modified_reply).and_then(|text| time::stamp(text.trim_ascii()));
        if let Some(text) = number(&size) {
            return Ok(Found::Present(Attributes {
                size: time::digits(text.trim_ascii()),
                modified,
                ..Attributes::of(Kind::File)
            }));
        }
        let all = [&go, &size, &modified_reply].map(|reply| words::read(reply, path));
        let denied = all.contains(&Refusal::Denied);
        // What may not be entered may be there for all to see.
        if denied && !ask_parent {
            return Err(self.denied(path, &go.shown()));
        }
        if all.contains(&Refusal::Absent) && ask_parent && !denied {
            return Ok(Found::Absent);
        }
        if all.contains(&Refusal::Busy) {
            return Err(self.busy(&go));
        }
        if ask_parent {
            return Box::pin(self.by_parent(path, &go)).await;
        }
        Err(self.denied(
            path,
            &format!("it does not show what is there ({})", go.shown()),
        ))
    }

    /// What stands in a directory, and whether that is all.
    async fn look(&self, path: &[u8]) -> Result<Looked> {
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
            let gather = self.gather(Format::Unix(now()), None);
            let said = self.say(listing(&said(b"STAT -a", path), gather)).await?;
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

    /// A listing over a data channel.
    async fn by_data(&self, words: &[u8], format: Format) -> Result<Said<Listed>> {
        let _alone = self.calm.write().await;
        let mut midway = Midway(&self.lost, false);
        let result = self.by_data_alone(words, format).await;
        // Whatever came back, no reply is awaited any more, unless the connection is said to be of no use.
        midway.1 = match &result {
            Ok(_) => true,
            Err(Error::Late { .. } | Error::Nonsense { .. }) => false,
            Err(_) => true,
        };
        result
    }

    async fn by_data_alone(&self, words: &[u8], format: Format) -> Result<Said<Listed>> {
        let address = match self.passive().await? {
            Ok(address) => address,
            Err(reply) => return Ok(Said::No(reply)),
        };
        let unreachable = |why: String| Error::Busy {
            origin: self.origin.clone(),
            why: format!("no data connection: {why}").into(),
        };
        let connected = timeout(self.silence, TcpStream::connect(address)).await;
        let connected = connected.map_err(|_| unreachable(format!("{address} does not answer")))?;
        let tcp = connected.map_err(|error| unreachable(error.to_string()))?;
        let reply = self.stream.ask(command(words, &self.origin));
        let read = async {
            let wire: Box<dyn Wire> = match &self.tls {
                Some(tls) => Box::new(tls.wrap(tcp).await?),
                None => Box::new(tcp),
            };
            let gather = self.gather(format, None);
            data::read(wire, gather, self.silence, &self.origin).await
        };
        tokio::pin!(reply, read);
        // A refusal comes while the data channel stays silent.
        let (reply, read) = tokio::select! {
            reply = &mut reply => {
                let reply = reply?;
                if !reply.is_well() {
                    return Ok(Said::No(reply));
                }
                (reply, read.await?)
            }
            listed = &mut read => (reply.await?, listed?),
        };
        match reply.code {
            200..300 => Ok(Said::Yes(read)),
            425 | 426 => Err(self.busy(&reply)),
            _ => Ok(Said::No(reply)),
        }
    }

    /// Where the server waits for a data connection.
    async fn passive(&self) -> Result<Result<SocketAddr, Reply>> {
        let bad = |reply: &Reply| Error::Nonsense {
            origin: self.origin.clone(),
            why: format!("no address in `{}`", reply.shown()).into(),
        };
        if self.can().epsv {
            let reply = self.stream.ask(command(b"EPSV", &self.origin)).await?;
            if reply.code == 229 {
                let port = data::extended(&reply.text()).ok_or_else(|| bad(&reply))?;
                return Ok(Ok((self.peer, port).into()));
            }
            self.learn(|can| can.epsv = false);
        }
        let reply = self.stream.ask(command(b"PASV", &self.origin)).await?;
        if reply.code != 227 {
            return Ok(Err(reply));
        }
        let address = data::passive(&reply.text()).ok_or_else(|| bad(&reply))?;
        // The port at the server itself: whatever other address it names is behind its router, or somebody else's.
        Ok(Ok((self.peer, address.port()).into()))
    }

    fn named(&self, path: &[u8], why: &str) -> Error {
        Error::Named {
            what: shown(path),
            why: why.into(),
        }
    }
}

impl Session for Control {
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<Found>> {
        Box::pin(async move {
            let path = &*question.path;
            if path.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
                return Err(self.named(path, "FTP cannot say a path with an end of line in it"));
            }
            if path.first() != Some(&b'/') || path.len() > PATH_BYTES_MAX {
                return Err(self.named(path, "not an absolute path, or too long a one"));
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
        let ahead = match self.width() {
            1 => "one command at a time".to_owned(),
            width => format!("{width} commands in flight"),
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
