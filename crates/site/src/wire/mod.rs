//! The upper end of links: answers tiers below and clients.

pub(crate) mod convert;
pub(crate) mod hostile;

use crate::access::{Access, Asking};
use crate::node::{Asked, Down, Node};
use crate::serve::ended;
use esker_rpc::proto;
use esker_rpc::proto::site_server::Site;
use esker_site_cache::entry::{Happened, Wants};
use esker_site_cache::tier::Who;
use futures_util::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status, Streaming};

/// Questions of one link that are open at once; then it is not read from.
const OPEN_MAX: usize = 1 << 16;
/// Answers and changes that go into one message.
const TOGETHER: usize = 1024;
/// Changes that wait for a link that does not take them; then it is cut.
const CHANGES_MAX: usize = 1 << 20;

/// The service.
#[derive(Clone)]
pub(crate) struct Links {
    pub(crate) node: Arc<Node>,
    pub(crate) access: Arc<Access>,
    /// Whether the tier is to end: links do at once, for they never end by themselves.
    pub(crate) stopped: watch::Receiver<bool>,
}

type Downs = Pin<Box<dyn Stream<Item = Result<proto::SiteDown, Status>> + Send>>;

/// Takes the link away when it is not read any more.
struct Joined {
    node: Arc<Node>,
    number: u32,
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.node.leave(self.number);
    }
}

/// Questions that are open, for back-pressure.
#[derive(Default)]
struct Open {
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
        let asking = request.extensions().get::<Asking>().cloned();
        let asking = asking.ok_or_else(|| Status::internal("it is not known who asks"))?;
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
        let joined = Joined {
            node: self.node.clone(),
            number,
        };
        let open = Arc::new(Open::default());
        let (down, downs) = mpsc::channel(16);
        let told = tell(receive, down.clone(), open.clone());
        let told = tokio::spawn(until(self.stopped.clone(), told));
        let (access, refused) = (self.access.clone(), down.clone());
        let who = if hello.tier {
            Who::Tier(number)
        } else {
            Who::Client(number)
        };
        let reader = Reader {
            node: self.node.clone(),
            who,
            send,
            down,
            open,
        };
        let stopped = self.stopped.clone();
        tokio::spawn(async move {
            let asked = async {
                tokio::select! {
                    () = reader.read(first, up) => {}
                    denied = revoked(&access, &asking) => {
                        told.abort();
                        drop(refused.try_send(Err(denied)));
                    }
                }
            };
            until(stopped, asked).await;
            tracing::debug!(link = number, "a link ends");
            drop(joined);
        });
        let stream = tokio_stream::wrappers::ReceiverStream::new(downs);
        Ok(Response::new(Box::pin(stream)))
    }
}

/// How often it is looked whether the client of a link may still ask.
const LOOK: Duration = Duration::from_millis(500);

/// Until the client of a link may not ask any more: a status that says why.
async fn revoked(access: &Access, asking: &Asking) -> Status {
    loop {
        tokio::time::sleep(LOOK).await;
        if let Err(denied) = access.may_ask(asking) {
            return denied.status();
        }
    }
}

/// Does that until the tier is to end.
async fn until(mut stopped: watch::Receiver<bool>, what: impl Future<Output = ()>) {
    tokio::select! {
        () = what => {}
        () = ended(&mut stopped) => {}
    }
}

/// Gathers answers and changes to messages.
async fn tell(
    mut receive: mpsc::UnboundedReceiver<Down>,
    down: mpsc::Sender<Result<proto::SiteDown, Status>>,
    open: Arc<Open>,
) {
    let mut batch = Vec::new();
    loop {
        let count = tokio::select! {
            count = receive.recv_many(&mut batch, TOGETHER) => count,
            () = down.closed() => return,
        };
        if count == 0 {
            return;
        }
        if receive.len() > CHANGES_MAX {
            // Who does not take what happens must not believe that nothing does.
            let slow = Status::resource_exhausted("this link takes changes too slowly");
            drop(down.send(Err(slow)).await);
            return;
        }
        let mut message = proto::SiteDown::default();
        let mut answered = 0;
        for one in batch.drain(..) {
            match one {
                Down::Answer(ticket, result, kept) => {
                    answered += 1;
                    convert::answers(ticket, result, kept, &mut message.answers);
                }
                Down::Change(origin, path, happened) => {
                    message
                        .changes
                        .push(convert::change(&origin, path, &happened));
                }
                Down::Cut => message.cut = true,
            }
        }
        open.count.fetch_sub(answered, Ordering::AcqRel);
        open.fewer.notify_one();
        if down.send(Ok(message)).await.is_err() {
            return;
        }
    }
}

/// Reads one link's questions.
struct Reader {
    node: Arc<Node>,
    who: Who,
    send: mpsc::UnboundedSender<Down>,
    down: mpsc::Sender<Result<proto::SiteDown, Status>>,
    open: Arc<Open>,
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
            // Only a path that cannot be is refused, and then there is nothing to forget.
            if convert::of_change(doubt) == Happened::Doubted {
                drop(self.node.doubt(&doubt.origin, &doubt.path));
            }
        }
        for ask in message.asks {
            let asked = Asked {
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
            let then = move |result| drop(send.send(Down::Answer(ticket, result, kept)));
            if let Some(result) = self.node.ask_then(self.who, &asked, then) {
                drop(self.send.send(Down::Answer(ticket, result, kept)));
            }
        }
    }
}
