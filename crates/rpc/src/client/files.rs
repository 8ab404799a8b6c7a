//! Asynchronous client for reading files of a server: one connection with any number of requests in flight.
//!
//! A request is sent once. If the connection ends, all waiting requests fail at once; they change nothing, so the
//! caller can
//! repeat them on a new connection.

use super::connect;
use super::connection::receive;
use super::send_queue::SendQueue;
use crate::address::Address;
use crate::convert;
use crate::failure::failure_in;
use crate::frame::{CallHead, RawToClient, call_bytes, put_call, put_cancel, put_credit};
use crate::limits::{CREDIT_BYTES, OUTGOING_BYTES_MAX};
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use crate::trace::{self, CallSpan};
use bytes::Bytes;
use esker_model::namespace::{Entry, Inode, NamePath};
use esker_model::object::Principal;
use esker_model::{Error, Flow, Result};
use prost::Message as _;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Maximum of unread bytes of one response: more than a server may send.
const UNREAD_BYTES_MAX: u64 = 16 * CREDIT_BYTES;

/// A connection for reading files, after the greeting. Must be used on the threads of a runtime.
#[derive(Debug)]
pub struct FileLink {
    outgoing: Arc<SendQueue>,
    calls: Arc<FileCalls>,
    next: AtomicU64,
    address: Address,
    welcome: proto::Welcome,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct FileCalls(Mutex<OpenFileCalls>);

#[derive(Debug, Default)]
struct OpenFileCalls {
    waiting: HashMap<u64, Waiting>,
    /// Reason why no more responses will arrive.
    lost: Option<String>,
    /// Whether the server accepts no more requests; it still answers the pending ones.
    closing: bool,
}

/// A part of a response, and whether it is the last one.
type Piece = (Bytes, bool);

#[derive(Debug)]
struct Waiting {
    pieces: mpsc::UnboundedSender<Piece>,
    unread: Arc<AtomicU64>,
}

/// Whether to continue reading a response.
enum Next {
    More,
    Enough,
}

impl FileCalls {
    fn open(&self) -> MutexGuard<'_, OpenFileCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, message: RawToClient) {
        let mut open = self.open();
        open.closing |= message.closing;
        for answer in message.answers {
            let id = answer.id;
            // The caller may have given up.
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

    /// Closing the channels notifies the waiting callers.
    fn lose(&self, why: &str) {
        let mut open = self.open();
        open.lost.get_or_insert_with(|| why.to_owned());
        open.waiting.clear();
    }
}

/// Change notifications of a server.
pub use proto::watch_files_reply::{ChangeKind, Happened};

/// A subscription to changes on a server; dropping it ends the subscription.
#[derive(Debug)]
pub struct FileSubscription {
    number: u64,
    pending: PendingRequest<Arc<FileLink>>,
}

impl FileSubscription {
    /// Number of the subscription, to be passed with requests.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Waits for the next changes; `None` once the server sends no more. The caller must then treat what it has read as
    /// possibly outdated.
    pub async fn next(&mut self) -> Result<Option<Vec<Happened>>> {
        Ok(self.piece().await?.map(|(_, happened)| happened))
    }

    async fn piece(&mut self) -> Result<Option<(u64, Vec<Happened>)>> {
        let link = Arc::clone(&self.pending.link);
        let Some((piece, last)) = self.pending.pieces.recv().await else {
            return Err(link.lost());
        };
        self.pending.complete |= last;
        let bytes = piece.len() as u64;
        self.pending.unread.fetch_sub(bytes, Ordering::Relaxed);
        let id = self.pending.id;
        let mut part = Vec::new();
        put_credit(proto::Credit { id, bytes }, &mut part);
        link.outgoing.push(part, usize::MAX);
        match proto::Reply::decode(piece).ok().and_then(|r| r.reply) {
            Some(Reply::Failure(failure)) => Err(failure_in(failure)),
            Some(Reply::WatchFiles(_)) if last => Ok(None),
            Some(Reply::WatchFiles(reply)) => Ok(Some((reply.watcher, reply.happened))),
            _ => Err(link.wrong_reply()),
        }
    }
}

/// A request in flight. Dropping it before its response is complete cancels it.
#[derive(Debug)]
struct PendingRequest<L: Deref<Target = FileLink>> {
    link: L,
    id: u64,
    pieces: mpsc::UnboundedReceiver<Piece>,
    unread: Arc<AtomicU64>,
    complete: bool,
    /// Span of the call; it ends with this value.
    _span: Option<Box<dyn CallSpan>>,
}

impl<L: Deref<Target = FileLink>> Drop for PendingRequest<L> {
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
    /// Connects to a server and greets it.
    pub async fn open(address: &Address) -> Result<Arc<Self>> {
        let (outgoing, calls) = (
            Arc::new(SendQueue::default()),
            Arc::new(FileCalls::default()),
        );
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

    /// Whether the connection accepts requests.
    pub fn usable(&self) -> bool {
        let open = self.calls.open();
        open.lost.is_none() && !open.closing
    }

    /// Release of the server.
    pub fn release(&self) -> &str {
        &self.welcome.version
    }

    /// Reads the attributes of a file, or of a symbolic link itself. With the number of a subscription, also returns
    /// whether changes
    /// will be notified, and `None` for an absent file.
    pub async fn stat(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        watcher: u64,
    ) -> Result<(Option<Inode>, bool)> {
        let call = Call::StatFile(proto::StatFileRequest {
            principal: convert::principal_out(principal),
            path: convert::path_out(path),
            watcher,
            ..Default::default()
        });
        let mut found = None;
        self.call_pieces(call, |reply| match reply {
            Reply::StatFile(reply) => {
                let inode = match reply.inode {
                    None if watcher != 0 => None,
                    inode => Some(convert::inode_in(inode)?),
                };
                found = Some((inode, reply.watched));
                Ok(Next::More)
            }
            _ => Err(self.wrong_reply()),
        })
        .await?;
        found.ok_or_else(|| self.wrong_reply())
    }

    /// Lists the entries of a directory until `sink` breaks. With the number of a subscription, returns whether changes
    /// will be notified.
    pub async fn list(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        watcher: u64,
        mut sink: impl FnMut(Entry) -> Flow + Send,
    ) -> Result<bool> {
        let call = Call::ListFiles(proto::ListFilesRequest {
            principal: convert::principal_out(principal),
            path: convert::path_out(path),
            after: None,
            limit: 0,
            watcher,
        });
        let mut watched = false;
        self.call_pieces(call, |reply| {
            let Reply::ListFiles(piece) = reply else {
                return Err(self.wrong_reply());
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

    /// Subscribes to changes of the files that are read with the number of this subscription. An error other than a lost
    /// connection means that this server has no notifications.
    pub async fn watch(self: &Arc<Self>) -> Result<FileSubscription> {
        let call = Call::WatchFiles(proto::WatchFilesRequest::default());
        let pending = Self::send_from(Arc::clone(self), call)?;
        let mut watching = FileSubscription { number: 0, pending };
        let first = timeout(self.address.patience, watching.piece()).await;
        let (number, _) = first
            .map_err(|_| self.lost())??
            .ok_or_else(|| self.wrong_reply())?;
        watching.number = number;
        Ok(watching)
    }

    /// Error for a response of the wrong kind.
    fn wrong_reply(&self) -> Error {
        Error::OtherRelease(format!(
            "{} answered another request: use the same release on both sides",
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

    async fn call_pieces(
        &self,
        call: Call,
        mut take: impl FnMut(Reply) -> Result<Next> + Send,
    ) -> Result<()> {
        let mut pending = self.send(call)?;
        let mut taken = 0;
        loop {
            let patience = self.address.patience;
            let (piece, last) = match timeout(patience, pending.pieces.recv()).await {
                Ok(Some(piece)) => piece,
                Ok(None) => return Err(self.lost()),
                Err(_) => {
                    // A server that misses this deadline is not expected to answer the other requests.
                    self.calls.lose(&format!(
                        "{} did not answer within {}",
                        self.address.authority(),
                        connect::seconds(patience)
                    ));
                    return Err(self.lost());
                }
            };
            pending.complete |= last;
            let bytes = piece.len() as u64;
            pending.unread.fetch_sub(bytes, Ordering::Relaxed);
            taken += bytes;
            if taken >= CREDIT_BYTES / 2 {
                let mut part = Vec::new();
                put_credit(
                    proto::Credit {
                        id: pending.id,
                        bytes: taken,
                    },
                    &mut part,
                );
                self.outgoing.push(part, usize::MAX);
                taken = 0;
            }
            match proto::Reply::decode(piece).ok().and_then(|r| r.reply) {
                Some(Reply::Failure(failure)) => {
                    return Err(failure_in(failure));
                }
                Some(reply) => match take(reply)? {
                    Next::More => {}
                    Next::Enough => return Ok(()),
                },
                None => {
                    return Err(Error::OtherRelease(format!(
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

    fn send(&self, call: Call) -> Result<PendingRequest<&Self>> {
        Self::send_from(self, call)
    }

    fn send_from<L: Deref<Target = Self>>(link: L, call: Call) -> Result<PendingRequest<L>> {
        let this = &*link;
        let id = this.next.fetch_add(1, Ordering::Relaxed);
        let request = proto::Request { call: Some(call) };
        let span = trace::begin(&request);
        let head = CallHead {
            id,
            trace: trace::context_of(span.as_deref()),
            ..CallHead::default()
        };
        let bytes = call_bytes(&head, &request);
        if bytes as u64 > this.welcome.call_bytes_max {
            return Err(Error::Limit {
                what: "the size in bytes of one call to a server".into(),
                got: bytes as u64,
                limit: this.welcome.call_bytes_max,
            });
        }
        let mut part = Vec::with_capacity(bytes);
        put_call(&head, &request, &mut part);
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
        let pending = PendingRequest {
            link,
            id,
            pieces,
            unread,
            complete: false,
            _span: span,
        };
        let this = &*pending.link;
        if !this.outgoing.push(part, OUTGOING_BYTES_MAX) {
            return Err(Error::Busy(format!(
                "more than {OUTGOING_BYTES_MAX} bytes wait to be sent to {}, which takes them in too slowly",
                this.address.authority()
            )));
        }
        Ok(pending)
    }
}

impl Drop for FileLink {
    fn drop(&mut self) {
        self.outgoing.close();
        self.task.abort();
    }
}
