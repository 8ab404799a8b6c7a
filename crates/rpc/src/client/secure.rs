//! Encrypted connections: the server is identified by its host key or by certificates, then the client proves its
//! identity.

use super::CallError;
use super::connect::{deepest, seconds, unreached};
use crate::address::{Address, Encrypt, Trust};
use crate::limits::CONNECT_MAX;
use crate::proto;
use crate::proto::access_client::AccessClient;
use esker_access::accounts::Accounts;
use esker_access::proof::EXPORTER_BYTES;
use esker_access::{Identities, Identity, UserCertificate};
use esker_access::{known_hosts, munge, peer, proof, tls};
use esker_model::{Error, Result};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

/// Time limit for a signature by the user's agent, which may ask the user.
const SIGN_MAX: Duration = Duration::from_secs(90);

/// An encrypted connection to an identified server.
pub(crate) struct SecureStream {
    pub(crate) stream: TlsStream<TcpStream>,
    /// TLS exporter that a proof is bound to.
    pub(crate) exporter: Option<[u8; EXPORTER_BYTES]>,
}

fn target(message: String) -> CallError {
    CallError::Failed(Error::Target(message))
}

/// Opens a TCP connection; as a server of a cluster if `peer` is set.
async fn reach(address: &Address, limit: Duration, peer: bool) -> Result<TcpStream, CallError> {
    let place = (address.host.as_str(), address.port);
    let stream = match tokio::time::timeout(limit, TcpStream::connect(place)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(e)) => return Err(unreached(address, Some(e.kind()), &e.to_string(), peer)),
        Err(_) => {
            let late = io::ErrorKind::TimedOut;
            return Err(unreached(address, Some(late), "", peer));
        }
    };
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// The user who serves a loopback connection, if that is neither this process's user nor root. Any user may have been
/// the first to
/// listen at the port, so such a server must prove its host key.
pub(crate) fn other_user(stream: &TcpStream) -> Option<u32> {
    let (there, here) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
    let user = peer::server_user(there, here)?;
    let trusted = user == 0 || user == peer::own_user();
    (!trusted || !peer::is_mapped(user)).then_some(user)
}

/// Explains why a server of another user must prove its host key.
pub(crate) fn other_user_message(user: u32, why: &str) -> String {
    format!(
        "the server is a process of user {user}, who is neither you nor root, so it must prove \
         itself by its host key, as a server on another machine must (?plain=on in the address \
         trusts that user). {why}"
    )
}

/// Makes the TLS handshake within the time limit.
async fn handshake(
    address: &Address,
    stream: TcpStream,
    config: Arc<tokio_rustls::rustls::ClientConfig>,
    name: ServerName<'static>,
    failed: impl Fn(&io::Error) -> CallError,
) -> Result<SecureStream, CallError> {
    let limit = CONNECT_MAX.min(address.patience);
    let connector = TlsConnector::from(config);
    match tokio::time::timeout(limit, connector.connect(name, stream)).await {
        Ok(Ok(stream)) => {
            let exporter = tls::exporter_of(stream.get_ref().1);
            Ok(SecureStream { stream, exporter })
        }
        Ok(Err(e)) => Err(failed(&e)),
        Err(_) => Err(CallError::Lost(format!(
            "{} accepts connections but did not agree on TLS within {}: its process may be stopped or overloaded",
            address.authority(),
            seconds(limit)
        ))),
    }
}

/// Runs work that reads files or asks an agent outside of the threads that drive connections.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T, CallError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| CallError::Lost("a thread of the client has ended".into()))?
        .map_err(CallError::Failed)
}

/// Connects to a server that is identified by its host key.
pub(crate) async fn by_host_key(
    address: &Address,
    protocols: &[&[u8]],
) -> Result<SecureStream, CallError> {
    let stream = reach(address, CONNECT_MAX.min(address.patience), false).await?;
    let client = tls::Client::new(protocols)?;
    let at = address.authority();
    let failed = |e: &io::Error| {
        let text = deepest(e);
        match e.kind() {
            io::ErrorKind::InvalidData => target(format!(
                "{at} does not prove itself by a host key ({text}): is it an Esker server of this release? A server with \
                 certificates of its own is reached with ?tls=FILE"
            )),
            _ => CallError::Lost(format!(
                "the connection to {at} ended while its key was asked for: {text}; is that an Esker server of this release?"
            )),
        }
    };
    let name = tls::Client::name()?;
    let wire = handshake(address, stream, client.config(), name, failed).await?;
    let key = client
        .key()
        .ok_or_else(|| target(format!("{at} showed no host key")))?;
    if let Some(own) = &address.trust.own {
        // All servers of a cluster have the same key.
        if own.public().key_data() == &key {
            return Ok(wire);
        }
        return Err(target(format!(
            "{at} has another host key than this server: the servers of a cluster have one, in their storage"
        )));
    }
    if address.trust.is_verified(&key) {
        return Ok(wire);
    }
    let (host, port, shown_key) = (address.host.clone(), address.port, key.clone());
    let trust_new = address.trust.trusts_new_hosts();
    let file = address.trust.known_hosts.clone();
    run_blocking(move || {
        let known = match file {
            Some(file) => known_hosts::KnownHosts::in_files(vec![file]),
            None => known_hosts::KnownHosts::of_user(),
        };
        known.accept(&host, port, &shown_key, trust_new)
    })
    .await?;
    address.trust.add_verified(key);
    Ok(wire)
}

/// Connects to a server whose certificate is signed by one in a file.
async fn by_certificates(address: &Address, file: &Path) -> Result<SecureStream, CallError> {
    let config = crate::http::trusted(file, &[b"h2"]).map_err(|e| match e {
        Error::Io { source, .. } => CallError::Failed(Error::io(
            format!(
                "reading the certificates to trust, `{}` (the tls option of {address})",
                file.display()
            ),
            source,
        )),
        e => CallError::Failed(e),
    })?;
    let stream = reach(address, CONNECT_MAX.min(address.patience), false).await?;
    let at = address.authority();
    let name = ServerName::try_from(address.host.clone()).map_err(|e| {
        target(format!(
            "`{}` cannot be asked for by TLS: {e}",
            address.host
        ))
    })?;
    let failed = |e: &io::Error| {
        let text = deepest(e);
        if e.kind() == io::ErrorKind::InvalidData {
            return target(format!(
                "TLS with {at} failed: {text}; the certificates in `{}` must be those that sign the server's",
                file.display()
            ));
        }
        CallError::Lost(format!("no connection to {at}: {text}"))
    };
    handshake(address, stream, config, name, failed).await
}

/// Opens an unencrypted connection to a server on this machine; returns the user of the server instead if it must prove
/// its host key.
pub(super) async fn plain(
    address: &Address,
    endpoint: Endpoint,
    limit: Duration,
    peer: bool,
) -> Result<std::result::Result<SecureChannel, u32>, CallError> {
    let stream = reach(address, limit, peer).await?;
    if address.trust.encrypt == Encrypt::Auto
        && let Some(user) = other_user(&stream)
    {
        return Ok(Err(user));
    }
    let channel = channel_over(address, endpoint, stream).await?;
    Ok(Ok(SecureChannel {
        channel,
        exporter: None,
    }))
}

/// Makes a channel over an open connection.
async fn channel_over<S>(
    address: &Address,
    endpoint: Endpoint,
    stream: S,
) -> Result<Channel, CallError>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let channel = endpoint
        .connect_with_connector(SingleConnection(Some(stream)))
        .await;
    channel.map_err(|e| {
        CallError::Lost(format!(
            "the connection to {} ended: {}",
            address.authority(),
            deepest(&e)
        ))
    })
}

/// Opens an encrypted channel, by certificates if the address names some, otherwise by host key.
pub(super) async fn connect(
    address: &Address,
    endpoint: Endpoint,
) -> Result<SecureChannel, CallError> {
    let wire = match &address.tls {
        Some(file) => by_certificates(address, file).await?,
        None => by_host_key(address, &[b"h2"]).await?,
    };
    let exporter = wire.exporter;
    let channel = channel_over(address, endpoint, wire.stream).await?;
    Ok(SecureChannel { channel, exporter })
}

/// A channel for calls, and the TLS exporter of its connection.
pub(super) struct SecureChannel {
    pub(super) channel: Channel,
    pub(super) exporter: Option<[u8; EXPORTER_BYTES]>,
}

/// Connector that hands out one open connection and never reconnects.
struct SingleConnection<S>(Option<S>);

impl<S> tower_service::Service<http::Uri> for SingleConnection<S> {
    type Response = TokioIo<S>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        let stream = self.0.take().map(TokioIo::new);
        std::future::ready(stream.ok_or_else(|| io::Error::other("the connection has ended")))
    }
}

/// The token by which the user has logged in at this server, if so (`esker login`), as the value of the header `authorization`. It may
/// be sent over an encrypted connection only.
pub(crate) async fn authorization(address: &Address) -> Result<Option<String>, CallError> {
    let address = address.clone();
    run_blocking(move || crate::logins::authorization(&address)).await
}

/// Transport for the requests of a proof.
pub(crate) trait ProofTransport {
    /// Sends a request and returns the reply.
    fn send_proof<'a>(
        &'a mut self,
        request: proto::ProveRequest,
    ) -> Pin<Box<dyn Future<Output = Result<proto::ProveReply, CallError>> + Send + 'a>>;
}

/// Sends the requests of a proof over gRPC.
pub(super) struct GrpcTransport<'a> {
    pub(super) address: &'a Address,
    pub(super) channel: Channel,
}

impl ProofTransport for GrpcTransport<'_> {
    fn send_proof<'a>(
        &'a mut self,
        request: proto::ProveRequest,
    ) -> Pin<Box<dyn Future<Output = Result<proto::ProveReply, CallError>> + Send + 'a>> {
        Box::pin(async move {
            let mut client = AccessClient::new(self.channel.clone());
            let at = self.address.authority();
            let reply = client.prove(request).await;
            reply.map(tonic::Response::into_inner).map_err(|status| {
                match status.code() {
                    Code::PermissionDenied | Code::Unauthenticated => {
                        target(format!("{at}: {}", status.message()))
                    }
                    Code::Unimplemented => target(format!(
                        "the server at {at} does not ask for keys: it is older than this client, or not an Esker server"
                    )),
                    _ => CallError::Lost(format!("the connection to {at} ended: {}", deepest(&status))),
                }
            })
        })
    }
}

/// The keys of the client.
async fn identities(trust: &Trust) -> Result<Identities, CallError> {
    if let Some(own) = &trust.own {
        return Ok(Identities::of_host(own.clone()));
    }
    let key = trust.key_file();
    run_blocking(move || Identities::of_user(key.as_deref())).await
}

/// Proves the client's identity: by Munge if the address says so, else by a key or certificate, else by Munge if the server
/// accepts it. If nothing is accepted, later calls are refused, unless the server identifies the client in another way.
pub(crate) async fn prove(
    address: &Address,
    exporter: Option<&[u8; EXPORTER_BYTES]>,
    server: &mut impl ProofTransport,
) -> Result<(), CallError> {
    let at = address.authority();
    let exporter = exporter.ok_or_else(|| {
        target(format!(
            "{at} asks for a key, but does not support TLS 1.3, which a proof needs"
        ))
    })?;
    if address.trust.is_by_munge() {
        return prove_by_munge(exporter, server).await;
    }
    let refused = match prove_by_key(address, exporter, server).await {
        Err(refused @ CallError::Failed(_)) => refused,
        done => return done,
    };
    // Servers of a cluster know each other by their key only.
    if address.trust.own.is_some() {
        return Err(refused);
    }
    match server.send_proof(proto::ProveRequest::default()).await {
        Ok(reply) if reply.munge => {}
        _ => return Err(refused),
    }
    let by_munge = prove_by_munge(exporter, server).await;
    by_munge.map_err(|e| match (refused, e) {
        (CallError::Failed(refused), CallError::Failed(e)) => target(format!("{refused}; {e}")),
        (_, e) => e,
    })
}

/// Proves the user of this process by a credential of Munge for this connection.
async fn prove_by_munge(
    exporter: &[u8; EXPORTER_BYTES],
    server: &mut impl ProofTransport,
) -> Result<(), CallError> {
    let exporter = *exporter;
    let credential = run_blocking(move || munge::encode(&exporter)).await?;
    let request = proto::ProveRequest {
        munge: credential.into_bytes(),
        ..Default::default()
    };
    server.send_proof(request).await.map(|_| ())
}

/// Login name that the client asks for: the one in the address, else its own or the only one, if a certificate lists it.
fn asked_user(trust: &Trust, certificate: &UserCertificate) -> String {
    if let Some(user) = &trust.user {
        return user.clone();
    }
    if let [login] = certificate.logins() {
        return login.clone();
    }
    let own = Accounts::system().by_uid(peer::own_user());
    let own = own.map(|own| own.login.clone()).unwrap_or_default();
    let is_listed = certificate.logins().contains(&own);
    if is_listed { own } else { String::new() }
}

/// Proves a key: offers the available keys and certificates, and signs with the first one that has a role.
async fn prove_by_key(
    address: &Address,
    exporter: &[u8; EXPORTER_BYTES],
    server: &mut impl ProofTransport,
) -> Result<(), CallError> {
    let at = address.authority();
    let identities = identities(&address.trust).await?;
    let mut keys: Vec<&Identity> = identities.keys.iter().collect();
    if keys.is_empty() {
        return Err(target(format!(
            "{at} asks for a key: {}",
            identities.in_words()
        )));
    }
    // A single key is sent with its proof at once.
    if keys.len() > 1 {
        let request = proto::ProveRequest {
            keys: keys.iter().map(|k| k.offer()).collect(),
            user: address.trust.user.clone().unwrap_or_default(),
            ..Default::default()
        };
        let reply = server.send_proof(request).await;
        let reply = reply.map_err(|e| with_notes(e, &identities))?;
        keys = reply
            .usable
            .iter()
            .filter_map(|i| identities.keys.get(*i as usize))
            .collect();
    }
    let mut refused = None;
    for identity in keys {
        match prove_one(&address.trust, identity, exporter, server).await {
            Ok(()) => return Ok(()),
            // Another key may be accepted.
            Err(e @ CallError::Failed(_)) => refused = Some(e),
            Err(e) => return Err(e),
        }
    }
    let none = || {
        let shown = identities.in_words();
        target(format!(
            "{at}: no key gives access to this database; {shown}"
        ))
    };
    Err(refused.map_or_else(none, |e| with_notes(e, &identities)))
}

/// Signs with one key and sends the proof, with the key's certificate if it has one.
async fn prove_one(
    trust: &Trust,
    identity: &Identity,
    exporter: &[u8; EXPORTER_BYTES],
    server: &mut impl ProofTransport,
) -> Result<(), CallError> {
    let (trust, identity, exporter) = (trust.clone(), identity.clone(), *exporter);
    let signed = run_blocking(move || {
        let certificate = identity.certificate.as_ref();
        Ok(proto::ProveRequest {
            proof: proof::to_text(&identity.prove(&exporter)?)?.into_bytes(),
            certificate: certificate.map(UserCertificate::text).unwrap_or_default(),
            user: certificate.map_or_else(String::new, |c| asked_user(&trust, c)),
            ..Default::default()
        })
    });
    let signed = tokio::time::timeout(SIGN_MAX, signed).await;
    let request = signed.unwrap_or_else(|_| {
        Err(target(format!(
            "the agent did not sign within {}",
            seconds(SIGN_MAX)
        )))
    })?;
    server.send_proof(request).await.map(|_| ())
}

/// Adds the reasons why other keys were not offered.
fn with_notes(e: CallError, identities: &Identities) -> CallError {
    match e {
        CallError::Failed(Error::Target(mut words)) => {
            for note in &identities.notes {
                words.push_str("; ");
                words.push_str(note);
            }
            target(words)
        }
        e => e,
    }
}
