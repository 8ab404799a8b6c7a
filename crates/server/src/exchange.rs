//! `Exchange`: many calls in one stream.

use crate::access::needs::{Needs, READ};
use crate::access::table;
use crate::access::{Admitted, Requester};
use crate::audit::CallRecord;
use crate::call::{AtLeast, Call, CallOptions, CallState, OpenCalls, Sink};
use crate::calls::{CALLS, number_named, number_of};
use crate::cluster::PeerServer;
use crate::limits::{CALLS_PER_CONNECTION, PEER_REQUESTS_PER_CONNECTION};
use crate::outbox::{Messages, Outbox};
use crate::service::{PEER, Service, WATCH_FILES};
use crate::spans;
use crate::work::CLIENT;
use crate::writer::InlineGroup;
use bytes::Bytes;
use esker_model::{Error, Version};
use esker_rpc::convert::{Form, reason_in};
use esker_rpc::frame::{FrameCodec, RawCall, RawToServer};
use esker_rpc::limits::{CREDIT_BYTES, PEER_MESSAGE_BYTES_MAX};
use esker_rpc::proto::reply::Reply;
use esker_rpc::trace::TraceContext;
use esker_rpc::{OLDEST_PROTOCOL, PROTOCOL, agreed_protocol, proto};
use prost::Message as _;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonic::{Request, Response, Status, Streaming};

/// All open streams, which are notified when the server stops.
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
        let handler = ExchangeHandler(self.clone());
        // Servers may send each other larger messages than clients may.
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

struct ExchangeHandler(Exchange);

impl tonic::server::StreamingService<Bytes> for ExchangeHandler {
    type Response = Vec<u8>;
    type ResponseStream = Messages;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<Self::ResponseStream>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let exchange = self.0.clone();
        let requester = request.extensions().get::<Requester>().cloned();
        Box::pin(exchange.open(request.into_inner(), requester))
    }
}

/// State of one stream.
struct CallStream {
    service: Arc<Service>,
    outbox: Arc<Outbox>,
    open_calls: OpenCalls,
    /// State shared by all calls that need none of their own.
    shared_state: Arc<CallState>,
    open: Arc<AtomicUsize>,
    /// Server that opened the stream; `None` for a client.
    peer: Option<PeerServer>,
    /// Caller of all requests of the stream.
    requester: Requester,
}

impl Exchange {
    /// Exchanges greetings and starts a task that reads the stream.
    async fn open(
        self,
        mut incoming: Streaming<Bytes>,
        requester: Option<Requester>,
    ) -> Result<Response<Messages>, Status> {
        let requester = requester.ok_or_else(|| Status::internal("the caller is not known"))?;
        // The route admits any caller; the greeting reveals facts about the server.
        let admitted = self.service.access.admit(&requester, READ, "Exchange");
        let admitted = admitted.map_err(|denied| denied.status())?;
        let first = incoming.message().await?;
        let first =
            first.ok_or_else(|| Status::invalid_argument("the stream ended before `hello`"))?;
        let message = decode(first)?;
        let hello = message.hello.as_ref().ok_or_else(|| {
            Status::invalid_argument("malformed message: `hello`: expected it first")
        })?;
        // Servers of a cluster hold parts of the same data, so all of them are of one version.
        let agreed = agreed_protocol(hello.oldest_protocol, hello.protocol)
            .filter(|version| hello.peer.is_none() || *version == hello.protocol);
        let Some(protocol) = agreed else {
            let client: String = hello
                .version
                .chars()
                .filter(|c| !c.is_control())
                .take(32)
                .collect();
            return Err(Status::failed_precondition(format!(
                "the server is Esker {} (wire protocol {OLDEST_PROTOCOL} to {PROTOCOL}); the client is Esker {client} (protocol {}): \
                 upgrade the older one",
                env!("CARGO_PKG_VERSION"),
                hello.protocol
            )));
        };
        let service = self.service;
        let peer = hello
            .peer
            .as_ref()
            .map(|peer| admit(&service, &requester, peer))
            .transpose()?;
        let call_bytes_max = match peer {
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
            protocol,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            call_bytes_max: call_bytes_max as u64,
            credit_bytes: CREDIT_BYTES,
            now_millis: now_millis(),
            server: service.cluster.as_ref().map_or(0, |c| c.me.0),
            map: map_of(&service),
            window: service.cluster.as_ref().is_some_and(|c| c.has_window()),
            servers: service
                .cluster
                .as_ref()
                .map_or(0, |c| c.config.ids().count() as u32),
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
        let stream = CallStream {
            shared_state: CallState::new(None, Arc::clone(&service.cut)),
            service,
            outbox: Arc::clone(&outbox),
            open_calls: Arc::new(Mutex::new(HashMap::new())),
            open: Arc::new(AtomicUsize::new(0)),
            peer,
            requester,
        };
        let access = &stream.service.access;
        let client = access.client_of(&stream.requester, &admitted);
        tokio::spawn(CLIENT.scope(client, stream.read(message, incoming)));
        Ok(Response::new(Messages(outbox)))
    }
}

/// Checks that a server that greets as a peer belongs to the cluster.
fn admit(
    service: &Service,
    requester: &Requester,
    peer: &proto::Peer,
) -> Result<PeerServer, Status> {
    service
        .access
        .admit_server(requester)
        .map_err(Status::failed_precondition)?;
    let admitted = match &service.cluster {
        Some(cluster) => cluster.admit(peer),
        None => Err("this is a single server, not part of a cluster".into()),
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

impl CallStream {
    async fn read(self, first: RawToServer, mut incoming: Streaming<Bytes>) {
        self.take(first);
        let mut gone = self.service.streams_ended();
        let (calls_max, message_max) = match self.peer {
            // Peer requests may wait for others on the same connection.
            Some(_) => (PEER_REQUESTS_PER_CONNECTION, PEER_MESSAGE_BYTES_MAX),
            None => (CALLS_PER_CONNECTION, self.service.message_bytes_max()),
        };
        let left = self.requester.login_left();
        let mut expiry = std::pin::pin!(async move {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        });
        let mut is_closing = false;
        loop {
            // Calls beyond the limit wait in the connection, which slows the client down.
            while self.open.load(Ordering::Acquire) >= calls_max {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let message = tokio::select! {
                message = incoming.message() => message,
                _ = gone.wait_for(|gone| *gone) => break,
                // The client opens another connection for further calls, with a newer token.
                () = &mut expiry, if !is_closing => {
                    is_closing = true;
                    let closing = proto::ToClient {
                        closing: true,
                        ..Default::default()
                    };
                    self.outbox.push(closing.encode_to_vec());
                    continue;
                }
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
                    // The client sends no more calls; those in progress are still answered.
                    while self.open.load(Ordering::Acquire) > 0 {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    self.outbox.finish();
                    return;
                }
                Err(_) => break,
            }
        }
        let open_calls = self
            .open_calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open_calls.values().for_each(|w| w.abandon());
        drop(open_calls);
        self.outbox.finish();
    }

    fn take(&self, message: RawToServer) {
        let mut group = InlineGroup::default();
        for call in message.calls {
            self.call(call, &mut group);
        }
        group.write(&self.service);
        if message.cancels.is_empty() && message.credits.is_empty() {
            return;
        }
        let open_calls = self
            .open_calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for cancel in message.cancels {
            // The call may have been answered meanwhile.
            if let (Some(call_state), Ok(reason)) =
                (open_calls.get(&cancel.id), reason_in(cancel.reason))
            {
                call_state.stop(reason);
            }
        }
        for credit in message.credits {
            if let Some(call_state) = open_calls.get(&credit.id) {
                call_state.credit(credit.bytes);
            }
        }
    }

    /// Authorizes a call and returns the request as it is to be answered, limited to what the caller may see.
    fn admit(
        &self,
        needs: Needs,
        number: usize,
        (id, request): (u64, Bytes),
    ) -> Result<(Bytes, Admitted), String> {
        if needs == Needs::Server {
            return Ok((request, Admitted::default()));
        }
        let what = CALLS.get(number).map_or("unknown", |call| call.name);
        let access = &self.service.access;
        let admitted = access.admit_call(&self.requester, id, needs, what);
        let admitted = admitted.map_err(|denied| denied.message)?;
        let bound = admitted.bound();
        if bound.user.is_none() {
            return Ok((request, admitted));
        }
        let request =
            proto::Request::decode(request).map_err(|e| format!("malformed message: {e}"))?;
        let bound = bound.bind(request, what).map_err(|words| {
            let denied = access.refused_bound(&self.requester, id, words, what);
            denied.message
        })?;
        Ok((bound.encode_to_vec().into(), admitted))
    }

    fn call(&self, call: RawCall, group: &mut InlineGroup) {
        const SHORT: [usize; 5] = [
            number_named("ping"),
            number_named("apply"),
            PEER,
            number_named("stat_file"),
            number_named("change_files"),
        ];
        let request = call.request.unwrap_or_default();
        let parent = TraceContext::from_bytes(&call.trace);
        let number = number_of(&request);
        let timeout = (call.timeout_ms > 0).then(|| Duration::from_millis(call.timeout_ms.into()));
        let options = CallOptions {
            at_least: AtLeast(Version(call.at_least)),
            deadline: self.service.deadline_of(number, timeout),
            form: if call.typed_values {
                Form::Typed
            } else {
                Form::Packed
            },
        };
        // A call that cannot be cancelled and has a short answer needs no state of its own.
        let (call_state, open_calls) = if SHORT.contains(&number) {
            (Arc::clone(&self.shared_state), None)
        } else {
            let call_state = CallState::new(options.deadline, Arc::clone(&self.service.cut));
            let mut open_calls = self
                .open_calls
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            open_calls.insert(call.id, Arc::clone(&call_state));
            (call_state, Some(Arc::clone(&self.open_calls)))
        };
        self.open.fetch_add(1, Ordering::AcqRel);
        let sink = Sink::Stream {
            outbox: Arc::clone(&self.outbox),
            id: call.id,
            open_calls,
            open: Arc::clone(&self.open),
        };
        let mut call = Call::new(
            &self.service,
            number,
            request.len(),
            options,
            call_state,
            sink,
        );
        call.requester = (number == WATCH_FILES).then(|| self.requester.clone());
        if let (Some(peer), Some(cluster), PEER) = (self.peer, &self.service.cluster, number) {
            cluster.answer_peer(request, peer, parent, call);
            return;
        }
        let needs = table::needs_of_call(number, &request);
        let access = &self.service.access;
        let id = access.audit().next_request();
        let (request, admitted) = match self.admit(needs, number, (id, request)) {
            Ok(admitted) => admitted,
            Err(why) => {
                call.failed(&Error::Target(why));
                return;
            }
        };
        // Pings keep connections alive; a trace or a record of one shows nothing.
        if number != SHORT[0] {
            call.trace(spans::of_call(number, parent));
            if access.audit().wants(needs) {
                if let Some(full) = access.audit().refusal() {
                    call.done(Reply::Failure(full));
                    return;
                }
                let subject = self.requester.subject(access, &admitted);
                let record = Box::new(CallRecord::begin((id, number), subject, &request));
                call.audit(access.audit(), record);
            }
        }
        let most = self.service.settings.limits.request_bytes;
        if request.len() > most {
            call.failed(&Error::Limit {
                what: "the size in bytes of one call to this server".into(),
                got: request.len() as u64,
                limit: most as u64,
            });
            return;
        }
        self.service.call(request, number, call, group);
    }
}

/// Path of the file that records where this server's data are served after it fails.
fn map_of(service: &Service) -> String {
    let map = service.cluster.as_ref().and_then(|c| c.config.map());
    let map = map.and_then(|file| std::path::absolute(file).ok());
    map.map_or_else(String::new, |file| file.to_string_lossy().into_owned())
}
