//! Server end of links: answers downstream tiers and clients.

pub(crate) mod convert;
pub(crate) mod hostile;

use crate::access::{Access, RequestSender};
use crate::node::{LinkMessage, MetadataQuery, Node};
use crate::serve::ended;
use esker_rpc::proto;
use esker_rpc::proto::site_server::Site;
use esker_site_cache::entry::{ChangeKind, Wants};
use esker_site_cache::tier::Requester;
use futures_util::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status, Streaming};

/// Maximum number of open requests of one link; at the limit, the link is not read.
const OPEN_MAX: usize = 1 << 16;
/// Maximum number of answers and changes in one message.
const BATCH_MAX: usize = 1024;
/// Maximum number of changes queued for a slow link; beyond it, the link is closed.
const CHANGES_MAX: usize = 1 << 20;

/// Implementation of the gRPC service.
#[derive(Clone)]
pub(crate) struct Links {
    pub(crate) node: Arc<Node>,
    pub(crate) access: Arc<Access>,
    /// Whether the tier is to stop: links must be ended then, because they never end by themselves.
    pub(crate) stopped: watch::Receiver<bool>,
}

type Downs = Pin<Box<dyn Stream<Item = Result<proto::SiteDown, Status>> + Send>>;

/// Removes the link when dropped.
struct LinkGuard {
    node: Arc<Node>,
    number: u32,
}

impl Drop for LinkGuard {
    fn drop(&mut self) {
        self.node.leave(self.number);
    }
}

/// Number of open requests, for backpressure.
#[derive(Default)]
struct OpenRequests {
    count: AtomicUsize,
    fewer: Notify,
}

#[tonic::async_trait]
impl Site for Links {
    type LinkStream = Downs;

    async fn link(
        &self,
        request: Request<Streaming<proto::SiteUp>>,
    ) -> Result<Response<Downs>, Status> {
        let sender = request.extensions().get::<RequestSender>().cloned();
        let sender = sender.ok_or_else(|| Status::internal("the caller is not known"))?;
        let mut up = request.into_inner();
        let first = up.next().await;
        let Some(Ok(first)) = first else {
            return Err(Status::invalid_argument(
                "a link begins with a message that says who opens it",
            ));
        };
        let Some(hello) = first.hello.clone() else {
            return Err(Status::invalid_argument(
                "a link's first message has a `hello`: whether it is a tier, and its name",
            ));
        };
        let (send, receive) = mpsc::unbounded_channel();
        let number = self.node.join(send.clone());
        if hello.tier {
            tracing::info!(link = number, name = %hello.name, "a tier below links");
        } else {
            tracing::debug!(link = number, name = %hello.name, "a client links");
        }
        let guard = LinkGuard {
            node: self.node.clone(),
            number,
        };
        let open = Arc::new(OpenRequests::default());
        let (down, downs) = mpsc::channel(16);
        let sending = send_messages(receive, down.clone(), open.clone());
        let sending = tokio::spawn(until(self.stopped.clone(), sending));
        let (access, refused) = (self.access.clone(), down.clone());
        let requester = if hello.tier {
            Requester::Tier(number)
        } else {
            Requester::Client(number)
        };
        let reader = Reader {
            node: self.node.clone(),
            requester,
            send,
            down,
            open,
        };
        let stopped = self.stopped.clone();
        tokio::spawn(async move {
            let asked = async {
                tokio::select! {
                    () = reader.read(first, up) => {}
                    denied = revoked(&access, &sender) => {
                        sending.abort();
                        drop(refused.try_send(Err(denied)));
                    }
                }
            };
            until(stopped, asked).await;
            tracing::debug!(link = number, "a link ends");
            drop(guard);
        });
        let stream = tokio_stream::wrappers::ReceiverStream::new(downs);
        Ok(Response::new(Box::pin(stream)))
    }
}

/// Interval of checks whether the client of a link still has the right.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Completes when the client of a link loses its right, with the status that says why.
async fn revoked(access: &Access, sender: &RequestSender) -> Status {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        if let Err(denied) = access.check_right(sender) {
            return denied.status();
        }
    }
}

/// Runs a future until the tier is to stop.
async fn until(mut stopped: watch::Receiver<bool>, what: impl Future<Output = ()>) {
    tokio::select! {
        () = what => {}
        () = ended(&mut stopped) => {}
    }
}

/// Collects answers and changes into messages.
async fn send_messages(
    mut receive: mpsc::UnboundedReceiver<LinkMessage>,
    down: mpsc::Sender<Result<proto::SiteDown, Status>>,
    open: Arc<OpenRequests>,
) {
    let mut batch = Vec::new();
    loop {
        let count = tokio::select! {
            count = receive.recv_many(&mut batch, BATCH_MAX) => count,
            () = down.closed() => return,
        };
        if count == 0 {
            return;
        }
        if receive.len() > CHANGES_MAX {
            // A client that misses changes must not treat its cache as valid.
            let slow = Status::resource_exhausted("this link takes changes too slowly");
            drop(down.send(Err(slow)).await);
            return;
        }
        let mut message = proto::SiteDown::default();
        let mut answered = 0;
        for one in batch.drain(..) {
            match one {
                LinkMessage::Answer(ticket, result, kept) => {
                    answered += 1;
                    convert::answers(ticket, result, kept, &mut message.answers);
                }
                LinkMessage::Change(origin, path, happened) => {
                    message
                        .changes
                        .push(convert::change(&origin, path, &happened));
                }
                LinkMessage::SubscriptionsLost => message.cut = true,
            }
        }
        open.count.fetch_sub(answered, Ordering::AcqRel);
        open.fewer.notify_one();
        if down.send(Ok(message)).await.is_err() {
            return;
        }
    }
}

/// Reader of one link's requests.
struct Reader {
    node: Arc<Node>,
    requester: Requester,
    send: mpsc::UnboundedSender<LinkMessage>,
    down: mpsc::Sender<Result<proto::SiteDown, Status>>,
    open: Arc<OpenRequests>,
}

impl Reader {
    async fn read(self, first: proto::SiteUp, mut up: Streaming<proto::SiteUp>) {
        let mut next = Some(first);
        loop {
            let message = match next.take() {
                Some(message) => message,
                None => match up.next().await {
                    Some(Ok(message)) => message,
                    _ => return,
                },
            };
            self.take(message);
            while self.open.count.load(Ordering::Acquire) > OPEN_MAX {
                tokio::select! {
                    () = self.open.fewer.notified() => {}
                    () = self.down.closed() => return,
                }
            }
        }
    }

    fn take(&self, message: proto::SiteUp) {
        for doubt in &message.doubts {
            // Only an invalid path is refused, which has no entry to invalidate.
            if convert::of_change(doubt) == ChangeKind::Invalidated {
                drop(self.node.invalidate(&doubt.origin, &doubt.path));
            }
        }
        for ask in message.asks {
            let asked = MetadataQuery {
                origin: &ask.origin,
                path: &ask.path,
                wants: if ask.list { Wants::List } else { Wants::Stat },
                class: convert::class(ask.urgency),
                max_age: ask.max_age.map(Duration::from_micros),
                stale_if_error: ask.stale_if_error,
            };
            let (ticket, kept) = (ask.ticket, ask.kept);
            self.open.count.fetch_add(1, Ordering::AcqRel);
            let send = self.send.clone();
            let then = move |result| drop(send.send(LinkMessage::Answer(ticket, result, kept)));
            if let Some(result) = self.node.query_then(self.requester, &asked, then) {
                drop(self.send.send(LinkMessage::Answer(ticket, result, kept)));
            }
        }
    }
}
