//! Files of a server, asked about without a thread that waits: one connection, any number of questions under way.
//!
//! A question is sent once. If the connection goes away, all that wait fail at once; questions about files change nothing,
//! so whoever asked can ask again on a new one.

use super::connect;
use super::connection::receive;
use super::outgoing::Outgoing;
use crate::address::Address;
use crate::convert;
use crate::failure::failure_in;
use crate::frame::{RawToClient, call_bytes, put_call, put_cancel, put_credit};
use crate::limits::{CREDIT_BYTES, OUTGOING_BYTES_MAX};
use crate::proto;
use crate::proto::failure::Kind;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use bytes::Bytes;
use esker_model::namespace::{Entry, Inode, NamePath};
use esker_model::object::Asker;
use esker_model::{Error, Flow, Result};
use prost::Message as _;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Bytes of one answer that may wait to be read: more than a server has leave to send.
const UNREAD_BYTES_MAX: u64 = 16 * CREDIT_BYTES;

/// A connection to a server, greeted, by which files are asked about. To be used on the threads of a runtime.
#[derive(Debug)]
pub struct FileLink {
    outgoing: Arc<Outgoing>,
    calls: Arc<Calls>,
    next: AtomicU64,
    address: Address,
    welcome: proto::Welcome,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Calls(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    waiting: HashMap<u64, Waiting>,
    /// Why there will be no more answers.
    lost: Option<String>,
    /// The server takes no more questions, and answers those that it has.
    closing: bool,
}

/// A part of an answer, and whether it is the last one.
type Piece = (Bytes, bool);

#[derive(Debug)]
struct Waiting {
    pieces: mpsc::UnboundedSender<Piece>,
    unread: Arc<AtomicU64>,
}

/// What a piece of an answer means for the rest.
enum Next {
    More,
    Enough,
}

impl Calls {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, message: RawToClient) {
        let mut open = self.open();
        open.closing |= message.closing;
        for answer in message.answers {
            let id = answer.id;
            // Whoever asked may have given up.
            let Some(waiting) = open.waiting.get(&id) else {
                continue;
            };
            let piece = answer.reply.unwrap_or_default();
            let bytes = piece.len() as u64;
            let unread = waiting.unread.fetch_add(bytes, Ordering::Relaxed) + bytes;
            let _ = waiting.pieces.send((piece, !answer.more));
            if unread > UNREAD_BYTES_MAX + bytes {
                let why = "the server sends more than it may";
                open.lost.get_or_insert_with(|| why.to_owned());
            }
            if !answer.more {
                open.waiting.remove(&id);
            }
        }
        if open.lost.is_some() {
            open.waiting.clear();
        }
    }

    /// The ends of all channels tell those who wait.
    fn lose(&self, why: &str) {
        let mut open = self.open();
        open.lost.get_or_insert_with(|| why.to_owned());
        open.waiting.clear();
    }
}

/// What happened to a path, as a server tells it.
pub use proto::watch_files_reply::{Happened, What};

/// A watcher of a server; it ends when this is dropped.
#[derive(Debug)]
pub struct Watching {
    number: u64,
    asked: Asked<Arc<FileLink>>,
}

impl Watching {
    /// What questions name it by.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What happened next; nothing once the server tells no more. Whatever it may not have told has to be doubted then.
    pub async fn next(&mut self) -> Result<Option<Vec<Happened>>> {
        Ok(self.piece().await?.map(|(_, happened)| happened))
    }

    async fn piece(&mut self) -> Result<Option<(u64, Vec<Happened>)>> {
        let link = Arc::clone(&self.asked.link);
        let Some((piece, last)) = self.asked.pieces.recv().await else {
            return Err(link.lost());
        };
        self.asked.complete |= last;
        let bytes = piece.len() as u64;
        self.asked.unread.fetch_sub(bytes, Ordering::Relaxed);
        let id = self.asked.id;
        let mut part = Vec::new();
        put_credit(proto::Credit { id, bytes }, &mut part);
        link.outgoing.push(part, usize::MAX);
        match proto::Reply::decode(piece).ok().and_then(|r| r.reply) {
            Some(Reply::Failure(failure)) => Err(failure_in(failure)),
            Some(Reply::WatchFiles(_)) if last => Ok(None),
            Some(Reply::WatchFiles(reply)) => Ok(Some((reply.watcher, reply.happened))),
            _ => Err(link.stray()),
        }
    }
}

/// A question under way. Dropping it before its answer is complete tells the server that nobody waits for more.
#[derive(Debug)]
struct Asked<L: Deref<Target = FileLink>> {
    link: L,
    id: u64,
    pieces: mpsc::UnboundedReceiver<Piece>,
    unread: Arc<AtomicU64>,
    complete: bool,
}

impl<L: Deref<Target = FileLink>> Drop for Asked<L> {
    fn drop(&mut self) {
        self.link.calls.open().waiting.remove(&self.id);
        if !self.complete {
            let mut part = Vec::new();
            let reason = proto::StopReason::Interrupted.into();
            put_cancel(
                proto::Cancel {
                    id: self.id,
                    reason,
                },
                &mut part,
            );
            self.link.outgoing.push(part, OUTGOING_BYTES_MAX);
        }
    }
}

impl FileLink {
    /// Connects and greets.
    pub async fn open(address: &Address) -> Result<Arc<Self>> {
        let (outgoing, calls) = (Arc::new(Outgoing::default()), Arc::new(Calls::default()));
        let opened = connect::open(address, &outgoing, None).await;
        let opened = opened.map_err(|e| {
            outgoing.close();
            e.into_error()
        })?;
        let most = usize::try_from(opened.welcome.call_bytes_max).unwrap_or(usize::MAX);
        outgoing.limit(most);
        let task = {
            let (address, outgoing, calls) =
                (address.clone(), Arc::clone(&outgoing), Arc::clone(&calls));
            let (answers, first) = (opened.answers, opened.first);
            tokio::spawn(async move {
                calls.deliver(first);
                let why = receive(&address, answers, |message| calls.deliver(message)).await;
                outgoing.close();
                calls.lose(&why);
            })
        };
        Ok(Arc::new(Self {
            outgoing,
            calls,
            next: AtomicU64::new(1),
            address: address.clone(),
            welcome: opened.welcome,
            task: task.abort_handle(),
        }))
    }

    /// Whether questions can be asked still.
    pub fn usable(&self) -> bool {
        let open = self.calls.open();
        open.lost.is_none() && !open.closing
    }

    /// The server's release.
    pub fn release(&self) -> &str {
        &self.welcome.version
    }

    /// A file's attributes; of a symbolic link itself. With the number of a watcher also whether that will be told of changes, and
    /// nothing where nothing is.
    pub async fn stat(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        watcher: u64,
    ) -> Result<(Option<Inode>, bool)> {
        let call = Call::StatFile(proto::StatFileRequest {
            asker: convert::asker_out(asker),
            path: convert::path_out(path),
            watcher,
            ..Default::default()
        });
        let mut found = None;
        self.ask(call, |reply| match reply {
            Reply::StatFile(reply) => {
                let inode = match reply.inode {
                    None if watcher != 0 => None,
                    inode => Some(convert::inode_in(inode)?),
                };
                found = Some((inode, reply.watched));
                Ok(Next::More)
            }
            _ => Err(self.stray()),
        })
        .await?;
        found.ok_or_else(|| self.stray())
    }

    /// All entries of a directory, or as many as `sink` wants. With the number of a watcher: whether that will be told of changes.
    pub async fn list(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        watcher: u64,
        mut sink: impl FnMut(Entry) -> Flow + Send,
    ) -> Result<bool> {
        let call = Call::ListFiles(proto::ListFilesRequest {
            asker: convert::asker_out(asker),
            path: convert::path_out(path),
            after: None,
            limit: 0,
            watcher,
        });
        let mut watched = false;
        self.ask(call, |reply| {
            let Reply::ListFiles(piece) = reply else {
                return Err(self.stray());
            };
            watched = piece.watched;
            for entry in piece.entries {
                let (_, entry) = convert::entry_in(entry)?;
                if sink(entry).is_break() {
                    return Ok(Next::Enough);
                }
            }
            Ok(Next::More)
        })
        .await?;
        Ok(watched)
    }

    /// Begins to be told what happens to files that are asked about with the number of this watcher. An error that is not of the
    /// connection says that this server does not tell.
    pub async fn watch(self: &Arc<Self>) -> Result<Watching> {
        let call = Call::WatchFiles(proto::WatchFilesRequest::default());
        let asked = Self::send_from(Arc::clone(self), call)?;
        let mut watching = Watching { number: 0, asked };
        let first = timeout(self.address.patience, watching.piece()).await;
        let (number, _) = first
            .map_err(|_| self.lost())??
            .ok_or_else(|| self.stray())?;
        watching.number = number;
        Ok(watching)
    }

    /// An answer of another kind than was asked for.
    fn stray(&self) -> Error {
        Error::Unavailable(format!(
            "{} gave an answer to another question: use the same release on both sides",
            self.address.authority()
        ))
    }

    fn lost(&self) -> Error {
        let open = self.calls.open();
        let why = open.lost.clone();
        Error::Unavailable(why.unwrap_or_else(|| {
            let at = self.address.authority();
            format!("{at} ended an answer before it was complete")
        }))
    }

    async fn ask(
        &self,
        call: Call,
        mut take: impl FnMut(Reply) -> Result<Next> + Send,
    ) -> Result<()> {
        let mut asked = self.send(call)?;
        let mut taken = 0;
        loop {
            let patience = self.address.patience;
            let (piece, last) = match timeout(patience, asked.pieces.recv()).await {
                Ok(Some(piece)) => piece,
                Ok(None) => return Err(self.lost()),
                Err(_) => {
                    // What does not answer one question answers no other either.
                    self.calls.lose(&format!(
                        "{} did not answer within {}",
                        self.address.authority(),
                        connect::seconds(patience)
                    ));
                    return Err(self.lost());
                }
            };
            asked.complete |= last;
            let bytes = piece.len() as u64;
            asked.unread.fetch_sub(bytes, Ordering::Relaxed);
            taken += bytes;
            if taken >= CREDIT_BYTES / 2 {
                let mut part = Vec::new();
                put_credit(
                    proto::Credit {
                        id: asked.id,
                        bytes: taken,
                    },
                    &mut part,
                );
                self.outgoing.push(part, usize::MAX);
                taken = 0;
            }
            match proto::Reply::decode(piece).ok().and_then(|r| r.reply) {
                Some(Reply::Failure(failure)) => {
                    return Err(match Kind::try_from(failure.kind) {
                        Ok(Kind::Busy) => Error::Unavailable(failure.message),
                        _ => failure_in(failure),
                    });
                }
                Some(reply) => match take(reply)? {
                    Next::More => {}
                    Next::Enough => return Ok(()),
                },
                None => {
                    return Err(Error::Unavailable(format!(
                        "{} answered with what this build does not understand: use the same release",
                        self.address.authority()
                    )));
                }
            }
            if last {
                return Ok(());
            }
        }
    }

    fn send(&self, call: Call) -> Result<Asked<&Self>> {
        Self::send_from(self, call)
    }

    fn send_from<L: Deref<Target = Self>>(link: L, call: Call) -> Result<Asked<L>> {
        let this = &*link;
        let id = this.next.fetch_add(1, Ordering::Relaxed);
        let request = proto::Request { call: Some(call) };
        let bytes = call_bytes(id, &request, 0, 0);
        if bytes as u64 > this.welcome.call_bytes_max {
            return Err(Error::Limit {
                what: "the size in bytes of one call to a server".into(),
                got: bytes as u64,
                limit: this.welcome.call_bytes_max,
            });
        }
        let mut part = Vec::with_capacity(bytes);
        put_call(id, &request, 0, 0, &mut part);
        let (tell, pieces) = mpsc::unbounded_channel();
        let unread = Arc::new(AtomicU64::new(0));
        {
            let mut open = this.calls.open();
            if let Some(why) = &open.lost {
                return Err(Error::Unavailable(why.clone()));
            }
            let waiting = Waiting {
                pieces: tell,
                unread: Arc::clone(&unread),
            };
            open.waiting.insert(id, waiting);
        }
        let asked = Asked {
            link,
            id,
            pieces,
            unread,
            complete: false,
        };
        let this = &*asked.link;
        if !this.outgoing.push(part, OUTGOING_BYTES_MAX) {
            return Err(Error::Unavailable(format!(
                "more than {OUTGOING_BYTES_MAX} bytes wait to be sent to {}, which takes them in too slowly",
                this.address.authority()
            )));
        }
        Ok(asked)
    }
}

impl Drop for FileLink {
    fn drop(&mut self) {
        self.outgoing.close();
        self.task.abort();
    }
}
