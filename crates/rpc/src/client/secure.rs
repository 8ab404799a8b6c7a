//! Connections that are encrypted, and whose server is known: by its host key or by certificates. Then the client proves
//! who it is.

use super::Broken;
use super::connect::{deepest, seconds, unreached};
use crate::address::{Address, Encrypt, Trust};
use crate::limits::CONNECT_MAX;
use crate::proto;
use crate::proto::access_client::AccessClient;
use esker_access::proof::EXPORTER_BYTES;
use esker_access::{Identities, Identity, known_hosts, peer, proof, tls};
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

/// How long somebody may take to let their agent sign.
const SIGN_MAX: Duration = Duration::from_secs(90);

/// A connection to a server that is who it should be.
pub(crate) struct Wire {
    pub(crate) stream: TlsStream<TcpStream>,
    /// What a proof is bound to.
    pub(crate) exporter: Option<[u8; EXPORTER_BYTES]>,
}

fn target(message: String) -> Broken {
    Broken::Failed(Error::Target(message))
}

/// Connects by TCP; for a server of a cluster if `peer` says so.
async fn reach(address: &Address, limit: Duration, peer: bool) -> Result<TcpStream, Broken> {
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

/// The user who serves a connection over loopback, if that is somebody else than this process's user and root. Such a server may be
/// anybody's who was first at its port: it proves itself by its host key.
pub(crate) fn other_user(stream: &TcpStream) -> Option<u32> {
    let (there, here) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
    let user = peer::server_user(there, here)?;
    let trusted = user == 0 || user == peer::own_user();
    (!trusted || !peer::is_mapped(user)).then_some(user)
}

/// Words for a refusal of a server that is somebody else's.
pub(crate) fn of_other_user(user: u32, why: &str) -> String {
    format!(
        "the server is a process of user {user}, who is neither you nor root, so that it has to prove itself by its host key, as one \
         on another machine (?plain=on in the address trusts that user). {why}"
    )
}

/// Agrees on TLS within the time that there is.
async fn handshake(
    address: &Address,
    stream: TcpStream,
    config: Arc<tokio_rustls::rustls::ClientConfig>,
    name: ServerName<'static>,
    failed: impl Fn(&io::Error) -> Broken,
) -> Result<Wire, Broken> {
    let limit = CONNECT_MAX.min(address.patience);
    let connector = TlsConnector::from(config);
    match tokio::time::timeout(limit, connector.connect(name, stream)).await {
        Ok(Ok(stream)) => {
            let exporter = tls::exporter_of(stream.get_ref().1);
            Ok(Wire { stream, exporter })
        }
        Ok(Err(e)) => Err(failed(&e)),
        Err(_) => Err(Broken::Lost(format!(
            "{} accepts connections but did not agree on TLS within {}: its process may be stopped or overloaded",
            address.authority(),
            seconds(limit)
        ))),
    }
}

/// Runs what reads files or asks an agent beside the threads that carry connections.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T, Broken> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Broken::Lost("a thread of the client has ended".into()))?
        .map_err(Broken::Failed)
}

/// A connection to a server that is known by its host key.
pub(crate) async fn by_host_key(address: &Address, protocols: &[&[u8]]) -> Result<Wire, Broken> {
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
            _ => Broken::Lost(format!(
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
        // All servers of a cluster have one key.
        if own.public().key_data() == &key {
            return Ok(wire);
        }
        return Err(target(format!(
            "{at} has another host key than this server: the servers of a cluster have one, in their storage"
        )));
    }
    if address.trust.has_seen(&key) {
        return Ok(wire);
    }
    let (host, port, seen) = (address.host.clone(), address.port, key.clone());
    let trust_new = address.trust.trusts_new_hosts();
    let file = address.trust.known_hosts.clone();
    aside(move || {
        let known = match file {
            Some(file) => known_hosts::KnownHosts::in_files(vec![file]),
            None => known_hosts::KnownHosts::of_user(),
        };
        known.accept(&host, port, &seen, trust_new)
    })
    .await?;
    address.trust.saw(key);
    Ok(wire)
}

/// A connection to a server whose certificate those in a file sign.
async fn by_certificates(address: &Address, file: &Path) -> Result<Wire, Broken> {
    let config = crate::http::trusted(file, &[b"h2"]).map_err(|e| match e {
        Error::Io { source, .. } => Broken::Failed(Error::io(
            format!(
                "reading the certificates to trust, `{}` (the tls option of {address})",
                file.display()
            ),
            source,
        )),
        e => Broken::Failed(e),
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
        Broken::Lost(format!("no connection to {at}: {text}"))
    };
    handshake(address, stream, config, name, failed).await
}

/// A connection that is not encrypted, to a server on this machine; or the user whose server that is, if it is to prove itself.
pub(super) async fn plain(
    address: &Address,
    endpoint: Endpoint,
    limit: Duration,
    peer: bool,
) -> Result<std::result::Result<Reached, u32>, Broken> {
    let stream = reach(address, limit, peer).await?;
    if address.trust.encrypt == Encrypt::Auto
        && let Some(user) = other_user(&stream)
    {
        return Ok(Err(user));
    }
    let channel = over(address, endpoint, stream).await?;
    Ok(Ok(Reached {
        channel,
        exporter: None,
    }))
}

/// What speaks over a connection.
async fn over<S>(address: &Address, endpoint: Endpoint, stream: S) -> Result<Channel, Broken>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let channel = endpoint.connect_with_connector(Once(Some(stream))).await;
    channel.map_err(|e| {
        Broken::Lost(format!(
            "the connection to {} ended: {}",
            address.authority(),
            deepest(&e)
        ))
    })
}

/// Connects in the way that the address says, or by the host key.
pub(super) async fn connect(address: &Address, endpoint: Endpoint) -> Result<Reached, Broken> {
    let wire = match &address.tls {
        Some(file) => by_certificates(address, file).await?,
        None => by_host_key(address, &[b"h2"]).await?,
    };
    let exporter = wire.exporter;
    let channel = over(address, endpoint, wire.stream).await?;
    Ok(Reached { channel, exporter })
}

/// A connection over which calls can be made.
pub(super) struct Reached {
    pub(super) channel: Channel,
    pub(super) exporter: Option<[u8; EXPORTER_BYTES]>,
}

/// Hands out the one connection that there is: another one would be nobody's.
struct Once<S>(Option<S>);

impl<S> tower_service::Service<http::Uri> for Once<S> {
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

/// What is asked of a server while a client proves who it is.
pub(crate) trait Ask {
    /// Sends it.
    fn ask<'a>(
        &'a mut self,
        request: proto::ProveRequest,
    ) -> Pin<Box<dyn Future<Output = Result<proto::ProveReply, Broken>> + Send + 'a>>;
}

/// Over gRPC.
pub(super) struct ByCall<'a> {
    pub(super) address: &'a Address,
    pub(super) channel: Channel,
}

impl Ask for ByCall<'_> {
    fn ask<'a>(
        &'a mut self,
        request: proto::ProveRequest,
    ) -> Pin<Box<dyn Future<Output = Result<proto::ProveReply, Broken>> + Send + 'a>> {
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
                        "the server at {at} does not ask for keys: it is older than this client, or no Esker server"
                    )),
                    _ => Broken::Lost(format!("the connection to {at} ended: {}", deepest(&status))),
                }
            })
        })
    }
}

/// The keys of whoever asks.
async fn identities(trust: &Trust) -> Result<Identities, Broken> {
    if let Some(own) = &trust.own {
        return Ok(Identities::of_host(own.clone()));
    }
    let key = trust.key_file();
    aside(move || Identities::of_user(key.as_deref())).await
}

/// Proves by a key who asks: shows those that there are, signs with the first that has rights. If none has, whatever asks
/// next is refused, unless the server knows it in another way.
pub(crate) async fn prove(
    address: &Address,
    exporter: Option<&[u8; EXPORTER_BYTES]>,
    server: &mut impl Ask,
) -> Result<(), Broken> {
    let at = address.authority();
    let exporter = exporter.ok_or_else(|| {
        target(format!(
            "{at} asks for a key, and does not speak TLS 1.3, which a proof is bound to"
        ))
    })?;
    let identities = identities(&address.trust).await?;
    let mut keys: Vec<&Identity> = identities.keys.iter().collect();
    if keys.is_empty() {
        return Err(target(format!(
            "{at} asks for a key: {}",
            identities.in_words()
        )));
    }
    // One key is shown with its proof.
    if keys.len() > 1 {
        let shown = keys.iter().map(|k| k.public.to_openssh());
        let request = proto::ProveRequest {
            keys: shown.map(Result::unwrap_or_default).collect(),
            proof: Vec::new(),
        };
        let reply = server.ask(request).await;
        let reply = reply.map_err(|e| with_notes(e, &identities))?;
        keys = reply
            .usable
            .iter()
            .filter_map(|i| identities.keys.get(*i as usize))
            .collect();
    }
    let mut refused = None;
    for identity in keys {
        let (identity, exporter) = (identity.clone(), *exporter);
        let signed = aside(move || proof::to_text(&identity.prove(&exporter)?));
        let signed = tokio::time::timeout(SIGN_MAX, signed).await;
        let signed = signed.unwrap_or_else(|_| {
            Err(target(format!(
                "the agent did not sign within {}",
                seconds(SIGN_MAX)
            )))
        });
        let answer = match signed {
            Ok(text) => {
                let request = proto::ProveRequest {
                    keys: Vec::new(),
                    proof: text.into_bytes(),
                };
                server.ask(request).await.map(|_| ())
            }
            Err(e) => Err(e),
        };
        match answer {
            Ok(()) => return Ok(()),
            // The next one may do.
            Err(e @ Broken::Failed(_)) => refused = Some(e),
            Err(e) => return Err(e),
        }
    }
    let none = || {
        let shown = identities.in_words();
        target(format!("{at}: no key opens this database; {shown}"))
    };
    Err(refused.map_or_else(none, |e| with_notes(e, &identities)))
}

/// Says also why other keys were not shown.
fn with_notes(e: Broken, identities: &Identities) -> Broken {
    match e {
        Broken::Failed(Error::Target(mut words)) => {
            for note in &identities.notes {
                words.push_str("; ");
                words.push_str(note);
            }
            target(words)
        }
        e => e,
    }
}
