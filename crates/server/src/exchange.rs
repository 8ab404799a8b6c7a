//! `Exchange`: one stream, many calls.

use crate::access::Asking;
use crate::access::table::{self, Needs};
use crate::call::{Call, Sink, Terms, Version0, Watch, Watched};
use crate::cluster::Asker;
use crate::limits::{CALLS_PER_CONNECTION, QUESTIONS_PER_CONNECTION};
use crate::metrics::CALLS;
use crate::outbox::{Messages, Outbox};
use crate::service::{PEER, Service, WATCH_FILES, number_of};
use crate::work::CLIENT;
use bytes::Bytes;
use esker_model::{Error, Version};
use esker_rpc::convert::{Form, reason_in};
use esker_rpc::frame::{FrameCodec, RawCall, RawToServer};
use esker_rpc::limits::{CREDIT_BYTES, PEER_MESSAGE_BYTES_MAX};
use esker_rpc::{PROTOCOL, proto};
use prost::Message as _;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonic::{Request, Response, Status, Streaming};

/// All open streams, to be told when the server stops.
pub(crate) type Outboxes = Arc<Mutex<Vec<std::sync::Weak<Outbox>>>>;

/// Answers requests to `/esker.v1.Esker/Exchange`.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) service: Arc<Service>,
    pub(crate) outboxes: Outboxes,
}

impl tower_service::Service<http::Request<axum::body::Body>> for Exchange {
    type Response = http::Response<tonic::body::Body>;
    type Error = std::convert::Infallible;
    type Future =
        Pin<Box<dyn Future<Output = Result<Self::Response, std::convert::Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<axum::body::Body>) -> Self::Future {
        let handler = Handler(self.clone());
        // Servers send each other more at once than clients may.
        let limit = match self.service.cluster {
            Some(_) => PEER_MESSAGE_BYTES_MAX.max(self.service.settings.limits.request_bytes),
            None => self.service.message_bytes_max(),
        };
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(FrameCodec)
                .apply_max_message_size_config(Some(limit), None);
            Ok(grpc.streaming(handler, request).await)
        })
    }
}

struct Handler(Exchange);

impl tonic::server::StreamingService<Bytes> for Handler {
    type Response = Vec<u8>;
    type ResponseStream = Messages;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<Self::ResponseStream>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let exchange = self.0.clone();
        let asking = request.extensions().get::<Asking>().cloned();
        Box::pin(exchange.open(request.into_inner(), asking))
    }
}

/// What is known of one stream.
struct Stream {
    service: Arc<Service>,
    outbox: Arc<Outbox>,
    watched: Watched,
    /// The watch of all calls that need none of their own.
    unwatched: Arc<Watch>,
    open: Arc<AtomicUsize>,
    /// Another server of the cluster, rather than a client.
    asker: Option<Asker>,
    /// Who sends what comes.
    asking: Asking,
}

impl Exchange {
    /// Greets, and lets a task read what comes.
    async fn open(
        self,
        mut incoming: Streaming<Bytes>,
        asking: Option<Asking>,
    ) -> Result<Response<Messages>, Status> {
        let asking = asking.ok_or_else(|| Status::internal("it is not known who asks"))?;
        // Whatever let the request come here: the greeting tells of the server.
        let admitted = self.service.access.admit(&asking, table::READ, "Exchange");
        admitted.map_err(|denied| denied.status())?;
        let first = incoming.message().await?;
        let first =
            first.ok_or_else(|| Status::invalid_argument("the stream ended before `hello`"))?;
        let message = decode(first)?;
        let hello = message.hello.as_ref().ok_or_else(|| {
            Status::invalid_argument("malformed message: `hello`: expected it first")
        })?;
        if hello.protocol != PROTOCOL {
            let client: String = hello
                .version
                .chars()
                .filter(|c| !c.is_control())
                .take(32)
                .collect();
            return Err(Status::failed_precondition(format!(
                "the server is Esker {} (wire protocol {PROTOCOL}); the client is Esker {client} (protocol {}): use the \
                 same release",
                env!("CARGO_PKG_VERSION"),
                hello.protocol
            )));
        }
        let service = self.service;
        let asker = hello
            .peer
            .as_ref()
            .map(|peer| admit(&service, &asking, peer))
            .transpose()?;
        let call_bytes_max = match asker {
            Some(_) => PEER_MESSAGE_BYTES_MAX,
            None => service.settings.limits.request_bytes,
        };
        let outbox = Outbox::new(
            Arc::clone(&service.memory),
            Arc::clone(&service.metrics.sent),
        );
        {
            let mut outboxes = self.outboxes.lock().unwrap_or_else(PoisonError::into_inner);
            outboxes.retain(|o| o.strong_count() > 0);
            outboxes.push(Arc::downgrade(&outbox));
        }
        let welcome = proto::Welcome {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            call_bytes_max: call_bytes_max as u64,
            credit_bytes: CREDIT_BYTES,
            now_millis: now_millis(),
            server: service.cluster.as_ref().map_or(0, |c| c.me.0),
            map: map_of(&service),
            window: service.cluster.as_ref().is_some_and(|c| c.has_window()),
            members: service
                .cluster
                .as_ref()
                .map_or_else(Vec::new, |c| c.members()),
        };
        let greeting = proto::ToClient {
            welcome: Some(welcome),
            closing: service.closing(),
            ..Default::default()
        };
        outbox.push(greeting.encode_to_vec());
        let stream = Stream {
            unwatched: Watch::new(None, Arc::clone(&service.cut)),
            service,
            outbox: Arc::clone(&outbox),
            watched: Arc::new(Mutex::new(HashMap::new())),
            open: Arc::new(AtomicUsize::new(0)),
            asker,
            asking,
        };
        let client = stream.asking.client(&stream.service.access);
        tokio::spawn(CLIENT.scope(client, stream.read(message, incoming)));
        Ok(Response::new(Messages(outbox)))
    }
}

/// What must be so of a server that greets as one of a cluster.
fn admit(service: &Service, asking: &Asking, peer: &proto::Peer) -> Result<Asker, Status> {
    service
        .access
        .admit_server(asking)
        .map_err(Status::failed_precondition)?;
    let admitted = match &service.cluster {
        Some(cluster) => cluster.admit(peer),
        None => Err("this server stands alone: it is not one of a cluster".into()),
    };
    admitted.map_err(Status::failed_precondition)
}

fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

fn decode(message: Bytes) -> Result<RawToServer, Status> {
    RawToServer::decode(message)
        .map_err(|e| Status::invalid_argument(format!("malformed message: {e}")))
}

impl Stream {
    async fn read(self, first: RawToServer, mut incoming: Streaming<Bytes>) {
        self.take(first);
        let mut gone = self.service.gone();
        let (calls_max, message_max) = match self.asker {
            // Questions may wait for others on the same connection.
            Some(_) => (QUESTIONS_PER_CONNECTION, PEER_MESSAGE_BYTES_MAX),
            None => (CALLS_PER_CONNECTION, self.service.message_bytes_max()),
        };
        loop {
            // Calls beyond the limit wait in the connection, which holds the client back.
            while self.open.load(Ordering::Acquire) >= calls_max {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let message = tokio::select! {
                message = incoming.message() => message,
                _ = gone.wait_for(|gone| *gone) => break,
            };
            match message {
                Ok(Some(message)) => {
                    self.service.metrics.received.add(message.len() as u64);
                    if message.len() > message_max {
                        tracing::warn!(bytes = message.len(), "a client sent too large a message");
                        break;
                    }
                    match decode(message) {
                        Ok(message) => self.take(message),
                        Err(status) => {
                            tracing::warn!(
                                error = status.message(),
                                "a client sent a malformed message"
                            );
                            break;
                        }
                    }
                }
                Ok(None) => {
                    // The client has said all it wanted; what is under way is answered still.
                    while self.open.load(Ordering::Acquire) > 0 {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    self.outbox.finish();
                    return;
                }
                Err(_) => break,
            }
        }
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.values().for_each(|w| w.abandon());
        drop(watched);
        self.outbox.finish();
    }

    fn take(&self, message: RawToServer) {
        for call in message.calls {
            self.call(call);
        }
        if message.cancels.is_empty() && message.credits.is_empty() {
            return;
        }
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for cancel in message.cancels {
            // It may have been answered since.
            if let (Some(watch), Ok(reason)) = (watched.get(&cancel.id), reason_in(cancel.reason)) {
                watch.stop(reason);
            }
        }
        for credit in message.credits {
            if let Some(watch) = watched.get(&credit.id) {
                watch.credit(credit.bytes);
            }
        }
    }

    /// Lets a call in, as it is to be answered.
    fn admit(&self, needs: Needs, number: usize, request: Bytes) -> Result<Bytes, String> {
        if needs == Needs::Server {
            return Ok(request);
        }
        let what = CALLS.get(number).unwrap_or(&"unknown");
        let admitted = self.service.access.admit(&self.asking, needs, what);
        let bound = admitted.map_err(|denied| denied.words)?;
        if bound.0.is_none() {
            return Ok(request);
        }
        let request =
            proto::Request::decode(request).map_err(|e| format!("malformed message: {e}"))?;
        Ok(bound.bind(request, what)?.encode_to_vec().into())
    }

    fn call(&self, call: RawCall) {
        const SHORT: [usize; 5] = [1, 16, PEER, 32, 35];
        let request = call.request.unwrap_or_default();
        let number = number_of(&request);
        let timeout = (call.timeout_ms > 0).then(|| Duration::from_millis(call.timeout_ms.into()));
        let terms = Terms {
            at_least: Version0(Version(call.at_least)),
            deadline: self.service.deadline_of(number, timeout),
            form: if call.typed_values {
                Form::Typed
            } else {
                Form::Packed
            },
        };
        // What is not stopped and has a short answer needs no watch of its own.
        let (watch, watched) = if SHORT.contains(&number) {
            (Arc::clone(&self.unwatched), None)
        } else {
            let watch = Watch::new(terms.deadline, Arc::clone(&self.service.cut));
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.insert(call.id, Arc::clone(&watch));
            (watch, Some(Arc::clone(&self.watched)))
        };
        self.open.fetch_add(1, Ordering::AcqRel);
        let sink = Sink::Stream {
            outbox: Arc::clone(&self.outbox),
            id: call.id,
            watched,
            open: Arc::clone(&self.open),
        };
        let mut call = Call::new(&self.service, number, request.len(), terms, watch, sink);
        call.asking = (number == WATCH_FILES).then(|| self.asking.clone());
        if let (Some(asker), Some(cluster), PEER) = (self.asker, &self.service.cluster, number) {
            cluster.question(request, asker, call);
            return;
        }
        let needs = table::of_call(number, &request);
        let request = match self.admit(needs, number, request) {
            Ok(request) => request,
            Err(why) => {
                call.failed(&Error::Target(why));
                return;
            }
        };
        let most = self.service.settings.limits.request_bytes;
        if request.len() > most {
            call.failed(&Error::Limit {
                what: "the size in bytes of one call to this server".into(),
                got: request.len() as u64,
                limit: most as u64,
            });
            return;
        }
        self.service.call(request, number, call);
    }
}

/// The file that says where this server's data are served when it is gone.
fn map_of(service: &Service) -> String {
    let map = service.cluster.as_ref().and_then(|c| c.config.map());
    let map = map.and_then(|file| std::path::absolute(file).ok());
    map.map_or_else(String::new, |file| file.to_string_lossy().into_owned())
}
