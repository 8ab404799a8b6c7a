//! Opens connections, and explains failures to connect.

use super::CallError;
use super::secure::{self, GrpcTransport, SecureChannel};
use super::send_queue::{Messages, SendQueue};
use crate::address::{Address, Encrypt};
use crate::frame::{FrameCodec, RawToClient};
use crate::limits::{
    ANSWER_MESSAGE_BYTES_MAX, CONNECT_MAX, CONNECTION_WINDOW_BYTES, HTTP2_FRAME_BYTES, KEEP_ALIVE,
    STREAM_WINDOW_BYTES,
};
use crate::members::{MEMBERS_KEY, STORE_KEY};
use crate::{OLDEST_PROTOCOL, PROTOCOL, agreed_protocol, proto};
use bytes::Bytes;
use esker_model::Error;
use prost::Message as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

/// Path of the streaming call.
const EXCHANGE: &str = "/esker.v1.Esker/Exchange";
/// Metadata key by which a refusal says whether a key would help.
const HINT: &str = "esker-access";

/// An open stream after the greeting.
pub(super) struct Opened {
    pub(super) answers: Streaming<Bytes>,
    pub(super) welcome: proto::Welcome,
    /// Messages that arrived together with the greeting.
    pub(super) first: RawToClient,
}

fn target(message: String) -> CallError {
    CallError::Failed(Error::Target(message))
}

/// Time limit for connecting and for the greeting.
fn connect_max(address: &Address) -> Duration {
    let most = CONNECT_MAX.min(address.patience);
    address.connect.map_or(most, |connect| connect.min(most))
}

fn endpoint(address: &Address) -> Result<Endpoint, CallError> {
    // TLS is added below this layer.
    let uri = format!("http://{}", address.authority());
    let bad = |e: tonic::transport::Error| target(format!("`{address}` is not an address: {e}"));
    let endpoint = Endpoint::from_shared(uri)
        .map_err(bad)?
        .connect_timeout(connect_max(address))
        .tcp_nodelay(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(HTTP2_FRAME_BYTES)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true);
    Ok(endpoint)
}

/// Connects and greets; as a server of a cluster if `peer` is given. If a server on this machine asks for a key,
/// connects again
/// with encryption.
pub(super) async fn open(
    address: &Address,
    outgoing: &Arc<SendQueue>,
    peer: Option<proto::Peer>,
) -> Result<Opened, CallError> {
    let endpoint = endpoint(address)?;
    let (reached, by_key) = if address.by_host_key() || address.tls.is_some() {
        let reached = secure::connect(address, endpoint.clone()).await?;
        (reached, address.by_host_key())
    } else {
        plain_or_by_key(address, peer.is_some()).await?
    };
    if by_key {
        return proved(address, reached, outgoing, peer).await;
    }
    let channel = reached.channel.clone();
    let words = match in_time(address, channel, outgoing, peer.clone(), None).await {
        Err(Ungreeted::Unproved(words)) => words,
        Err(Ungreeted::CallError(e)) => return Err(e),
        Ok(opened) => return Ok(opened),
    };
    outgoing.restart();
    if address.tls.is_some() {
        return proved(address, reached, outgoing, peer).await;
    }
    if address.trust.encrypt == Encrypt::Never {
        return Err(target(words));
    }
    let reached = secure::connect(address, endpoint).await;
    let reached = reached.map_err(|e| match e {
        CallError::Failed(Error::Target(why)) => target(format!("{words}. {why}")),
        e => e,
    })?;
    proved(address, reached, outgoing, peer).await
}

/// Connects to a server on this machine. Returns whether the server is identified by its host key, which is required if the
/// server belongs to another user, unless the address disables it.
async fn plain_or_by_key(
    address: &Address,
    peer: bool,
) -> Result<(SecureChannel, bool), CallError> {
    let limit = connect_max(address);
    let user = match secure::plain(address, endpoint(address)?, limit, peer).await? {
        Ok(reached) => return Ok((reached, false)),
        Err(user) => user,
    };
    let reached = secure::connect(address, endpoint(address)?).await;
    let reached = reached.map_err(|e| match e {
        CallError::Failed(Error::Target(why)) => target(secure::other_user_message(user, &why)),
        e => e,
    })?;
    Ok((reached, true))
}

/// A channel, and the token that its requests carry.
pub(super) type Authorized = InterceptedService<Channel, Authorization>;

/// Adds the token of a login to each request.
#[derive(Debug, Clone)]
pub(super) struct Authorization(Option<MetadataValue<Ascii>>);

impl Authorization {
    fn of(token: Option<&str>) -> Result<Self, CallError> {
        let parsed = token.map(str::parse).transpose();
        let value = parsed.map_err(|_| target("the token of the login has other characters than those of a token: log in again (`esker login`)".into()))?;
        Ok(Self(value))
    }

    fn on(self, channel: Channel) -> Authorized {
        InterceptedService::new(channel, self)
    }
}

impl Interceptor for Authorization {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        if let Some(value) = &self.0 {
            let metadata = request.metadata_mut();
            metadata.insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// Opens a channel as the address requires; on an encrypted one, uses the token of a login, or proves a key if a usable key exists.
pub(super) async fn reach(address: &Address) -> Result<Authorized, CallError> {
    if address.by_host_key() || address.tls.is_some() {
        return reach_by_key(address).await;
    }
    match plain_or_by_key(address, false).await? {
        (reached, false) => Ok(Authorization(None).on(reached.channel)),
        (reached, true) => prove_on(address, reached).await,
    }
}

/// Opens an encrypted channel; uses the token of a login, or proves a key.
pub(super) async fn reach_by_key(address: &Address) -> Result<Authorized, CallError> {
    let reached = secure::connect(address, endpoint(address)?).await?;
    prove_on(address, reached).await
}

/// Proves the client's identity; on one machine the kernel may report it instead.
async fn prove_on(address: &Address, reached: SecureChannel) -> Result<Authorized, CallError> {
    let SecureChannel { channel, exporter } = reached;
    if let Some(token) = secure::authorization(address).await? {
        return Ok(Authorization::of(Some(&token))?.on(channel));
    }
    let unauthorized = Authorization(None).on(channel.clone());
    let mut server = GrpcTransport { address, channel };
    match secure::prove(address, exporter.as_ref(), &mut server).await {
        Err(CallError::Failed(_)) if address.is_local() || address.tls.is_some() => {
            Ok(unauthorized)
        }
        Err(e) => Err(e),
        Ok(()) => Ok(unauthorized),
    }
}

/// Whether a refusal says that a key would help.
pub(super) fn asks_for_key(status: &Status) -> bool {
    status.metadata().get(HINT).is_some_and(|h| h == "key")
}

/// Proves the client's identity and greets. A user who has logged in at the server shows the token of the login instead.
async fn proved(
    address: &Address,
    reached: SecureChannel,
    outgoing: &Arc<SendQueue>,
    peer: Option<proto::Peer>,
) -> Result<Opened, CallError> {
    let token = match &peer {
        Some(_) => None,
        None => secure::authorization(address).await?,
    };
    if let Some(token) = token {
        let opened = in_time(address, reached.channel, outgoing, peer, Some(&token)).await;
        return opened.map_err(|e| match e {
            Ungreeted::CallError(e) => e,
            Ungreeted::Unproved(words) => target(format!(
                "{words}. You logged in there by `esker login`; `esker logout esker://{}` forgets that, so that your SSH keys are used",
                address.authority()
            )),
        });
    }
    let mut server = GrpcTransport {
        address,
        channel: reached.channel.clone(),
    };
    let proof = secure::prove(address, reached.exporter.as_ref(), &mut server).await;
    match proof {
        // On one machine the kernel may report the client's identity.
        Err(CallError::Failed(_)) if address.is_local() || address.tls.is_some() => {}
        Err(e) => return Err(e),
        Ok(()) => {}
    }
    match in_time(address, reached.channel, outgoing, peer, None).await {
        Ok(opened) => Ok(opened),
        Err(Ungreeted::Unproved(words)) => Err(proof.err().unwrap_or_else(|| target(words))),
        Err(Ungreeted::CallError(e)) => Err(e),
    }
}

/// Greets within the time limit.
async fn in_time(
    address: &Address,
    channel: Channel,
    outgoing: &Arc<SendQueue>,
    peer: Option<proto::Peer>,
    token: Option<&str>,
) -> Result<Opened, Ungreeted> {
    let limit = connect_max(address);
    match tokio::time::timeout(limit, greet(address, channel, outgoing, peer, token)).await {
        Ok(opened) => opened,
        Err(_) => Err(Ungreeted::CallError(CallError::Lost(format!(
            "{} accepts connections but did not greet within {}: its process may be stopped or overloaded",
            address.authority(),
            seconds(limit)
        )))),
    }
}

/// Reason for a missing greeting.
enum Ungreeted {
    CallError(CallError),
    /// The server asks for a key.
    Unproved(String),
}

impl From<CallError> for Ungreeted {
    fn from(e: CallError) -> Self {
        Self::CallError(e)
    }
}

async fn greet(
    address: &Address,
    channel: Channel,
    outgoing: &Arc<SendQueue>,
    peer: Option<proto::Peer>,
    token: Option<&str>,
) -> Result<Opened, Ungreeted> {
    let hello = proto::ToServer {
        hello: Some(proto::Hello {
            protocol: PROTOCOL,
            oldest_protocol: OLDEST_PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            peer,
        }),
        ..Default::default()
    };
    outgoing.send(hello.encode_to_vec());
    let channel = Authorization::of(token)?.on(channel);
    let mut grpc =
        tonic::client::Grpc::new(channel).max_decoding_message_size(ANSWER_MESSAGE_BYTES_MAX);
    let gone = |e: &dyn std::fmt::Display| {
        CallError::Lost(format!(
            "the connection to {} ended: {e}",
            address.authority()
        ))
    };
    grpc.ready().await.map_err(|e| gone(&deepest(&e)))?;
    let path = http::uri::PathAndQuery::from_static(EXCHANGE);
    let mut request = tonic::Request::new(Messages(Arc::clone(outgoing)));
    if let Some(store) = address.store {
        request.metadata_mut().insert(STORE_KEY, store.into());
    }
    let response = grpc.streaming(request, path, FrameCodec).await;
    let refused = |s: Status| {
        if asks_for_key(&s) {
            return Ungreeted::Unproved(format!("{}: {}", address.authority(), s.message()));
        }
        Ungreeted::CallError(ungreeted(address, &s))
    };
    let mut answers = response.map_err(refused)?.into_inner();
    let first = answers.message().await.map_err(refused)?;
    let first = first.ok_or_else(|| gone(&"no greeting"))?;
    let mut first = RawToClient::decode(first).map_err(|e| stranger(address, &e.to_string()))?;
    let welcome = first
        .welcome
        .take()
        .ok_or_else(|| stranger(address, "it did not greet"))?;
    // The server has chosen the version.
    if agreed_protocol(welcome.protocol, welcome.protocol).is_none() {
        return Err(Ungreeted::CallError(target(format!(
            "the server at {} is Esker {} (wire protocol {}); this is Esker {} (protocol {OLDEST_PROTOCOL} to {PROTOCOL}): upgrade the older one",
            address.authority(),
            welcome.version,
            welcome.protocol,
            env!("CARGO_PKG_VERSION"),
        ))));
    }
    Ok(Opened {
        answers,
        welcome,
        first,
    })
}

fn tls_hint(address: &Address) -> &'static str {
    match address.tls {
        None => "; if it wants TLS, add ?tls=FILE with the certificates to trust",
        Some(_) => "",
    }
}

fn stranger(address: &Address, why: &str) -> CallError {
    target(format!(
        "{} answers, but not as an Esker server ({why}): is the port right{}?",
        address.authority(),
        tls_hint(address)
    ))
}

/// Error for a missing greeting. A server of another protocol may respond in that protocol or close the connection.
fn ungreeted(address: &Address, status: &Status) -> CallError {
    match refused(address, status) {
        CallError::Lost(why) => CallError::Lost(format!(
            "{why}, before any greeting: is that an Esker server{}?",
            tls_hint(address)
        )),
        other => other,
    }
}

/// Error for a server's refusal of the stream.
pub(super) fn refused(address: &Address, status: &Status) -> CallError {
    let at = address.authority();
    match status.code() {
        Code::FailedPrecondition => target(status.message().to_owned()),
        Code::PermissionDenied | Code::Unauthenticated => {
            target(format!("{at}: {}", status.message()))
        }
        Code::ResourceExhausted => CallError::Busy {
            message: status.message().to_owned(),
            after: Duration::from_millis(200),
        },
        Code::OutOfRange | Code::InvalidArgument => {
            CallError::Failed(Error::Invalid(status.message().to_owned()))
        }
        Code::Unimplemented => stranger(address, "it does not know the service esker.v1.Esker"),
        Code::Unavailable if status.metadata().contains_key(MEMBERS_KEY) => {
            let members = status.metadata().get(MEMBERS_KEY);
            let members = members.and_then(|m| m.to_str().ok()).unwrap_or_default();
            CallError::Moved {
                members: members.split_whitespace().map(str::to_owned).collect(),
                why: status.message().to_owned(),
            }
        }
        _ => {
            let cause = deepest(status);
            if cause.contains("frame with invalid size") || cause.contains("HTTP/1") {
                return stranger(address, "it does not speak HTTP/2");
            }
            CallError::Lost(format!("the connection to {at} ended: {cause}"))
        }
    }
}

/// The innermost cause of an error, which is the most informative one.
pub(super) fn deepest(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let text = cause.to_string();
    if text.is_empty() {
        error.to_string()
    } else {
        text
    }
}

/// Error for a failed connection.
pub(super) fn unreached(
    address: &Address,
    kind: Option<io::ErrorKind>,
    text: &str,
    peer: bool,
) -> CallError {
    let at = address.authority();
    match kind {
        // The servers of a cluster are started by its administrator, so no hint is given.
        Some(io::ErrorKind::ConnectionRefused) if peer => {
            CallError::Lost(format!("nothing listens at {at}"))
        }
        Some(io::ErrorKind::ConnectionRefused) => CallError::Lost(format!(
            "nothing listens at {at}: start a server there (`esker serve FOLDER --listen {at}`), or correct the address"
        )),
        Some(io::ErrorKind::TimedOut) => CallError::Lost(format!(
            "no answer from {at} within {}: is the host up, and does a firewall let port {} through?",
            seconds(connect_max(address)),
            address.port
        )),
        _ if text.contains("lookup address") => {
            target(format!("there is no host `{}`: {text}", address.host))
        }
        _ => CallError::Lost(format!("no connection to {at}: {text}")),
    }
}

pub(super) fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}
