//! Blocking HTTP/1.1 client: for the HTTP interface of a server, over TCP, TLS or a Unix socket, and for other
//! endpoints. Bodies
//! are streamed in both directions; each request has its own connection.

use crate::Address;
use crate::address::Encrypt;
use crate::client::CallError;
use crate::client::secure::{self, ProofTransport};
use crate::proto;
use bytes::Bytes;
use esker_access::proof::EXPORTER_BYTES;
use esker_model::{Error, Result};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use prost::Message as _;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Size in bytes of the pieces in which a body is sent.
const PIECE: usize = 64 << 10;
/// Interval at which a waiting call checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Endpoint of an HTTP server.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A server at a TCP address.
    Tcp {
        /// Host and port as in the `Host` header.
        authority: String,
        /// File of trusted certificates in PEM form, for TLS.
        tls: Option<PathBuf>,
        /// Host name of the server.
        host: String,
        /// Time limit for connecting.
        patience: Duration,
        /// Address of an Esker server, with its options for authentication.
        esker: Option<Box<Address>>,
    },
    /// A Unix socket of a process on this machine.
    Unix(PathBuf),
}

/// Body of a request.
pub enum RequestBody<'a> {
    /// No body is sent.
    Nothing,
    /// A body in memory.
    Bytes(&'a [u8]),
    /// A body that is read from a stream while it is sent.
    Stream(Box<dyn Read + Send>),
}

impl std::fmt::Debug for RequestBody<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Bytes(_) => "Bytes",
            Self::Stream(_) => "Stream",
        })
    }
}

/// Cancellation check, called repeatedly; true to stop.
pub type Stop<'a> = &'a dyn Fn() -> bool;

impl From<&Address> for Endpoint {
    fn from(address: &Address) -> Self {
        Self::Tcp {
            authority: address.authority(),
            tls: address.tls.clone(),
            host: address.host.clone(),
            patience: address.patience,
            esker: Some(Box::new(address.clone())),
        }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { authority, .. } => f.write_str(authority),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Body of an outgoing request: bytes, a reader, or another message's body.
pub(crate) enum OutgoingBody {
    Whole(Option<Bytes>),
    Reader(Box<dyn Read + Send>),
    /// The body of a message that is being received.
    Passed(Incoming),
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = io::Error;

    /// Reads in the thread that drives the connection, which has no other task.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match &mut *self {
            Self::Passed(body) => {
                let frame = Pin::new(body).poll_frame(cx);
                return frame.map(|f| f.map(|f| f.map_err(io::Error::other)));
            }
            Self::Whole(bytes) => bytes.take().map(|b| Ok(Frame::data(b))),
            Self::Reader(from) => {
                let mut piece = vec![0; PIECE];
                match from.read(&mut piece) {
                    Ok(0) => None,
                    Ok(n) => {
                        piece.truncate(n);
                        Some(Ok(Frame::data(piece.into())))
                    }
                    Err(e) => Some(Err(e)),
                }
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Passed(body) => body.is_end_stream(),
            Self::Whole(bytes) => bytes.is_none(),
            Self::Reader(_) => false,
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(bytes) => {
                let n = bytes.as_ref().map_or(0, Bytes::len);
                hyper::body::SizeHint::with_exact(n as u64)
            }
            Self::Reader(_) => hyper::body::SizeHint::default(),
            Self::Passed(body) => body.size_hint(),
        }
    }
}

/// Response to a request; implements `Read` for its body.
pub struct Response<'a> {
    /// HTTP status code of the response.
    pub status: u16,
    headers: http::HeaderMap,
    body: Incoming,
    piece: Bytes,
    stop: Stop<'a>,
    until: Option<Instant>,
    runtime: Runtime,
}

impl std::fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl Response<'_> {
    /// Value of a header; empty if absent.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|v| v.to_str().ok());
        value.unwrap_or_default()
    }

    /// The complete body, if it has at most `most` bytes.
    pub fn text(&mut self, most: usize) -> io::Result<String> {
        let mut bytes = Vec::new();
        let mut limited = Read::take(&mut *self, most as u64 + 1);
        limited.read_to_end(&mut bytes)?;
        if bytes.len() > most {
            return Err(io::Error::other(format!(
                "the answer has more than {most} bytes"
            )));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Read for Response<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let body = &mut self.body;
            let next = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
            let frame = drive(&self.runtime, next, self.stop, self.until)?;
            match frame {
                None => return Ok(0),
                Some(Ok(frame)) => self.piece = frame.into_data().unwrap_or_default(),
                Some(Err(e)) => {
                    return Err(io::Error::other(format!(
                        "the answer arrived incomplete: {}",
                        all(&e)
                    )));
                }
            }
        }
        let n = to.len().min(self.piece.len());
        let piece = self.piece.split_to(n);
        to[..n].copy_from_slice(&piece);
        Ok(n)
    }
}

/// An error with its causes.
fn all(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(e) = source {
        let more = e.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = e.source();
    }
    text
}

/// Waits for `work`, with regular cancellation checks.
fn drive<T>(
    runtime: &Runtime,
    work: impl Future<Output = T>,
    stop: Stop<'_>,
    until: Option<Instant>,
) -> io::Result<T> {
    let mut work = std::pin::pin!(work);
    runtime.block_on(async {
        loop {
            if stop() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if until.is_some_and(|u| Instant::now() >= u) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if let Ok(done) = tokio::time::timeout(POLL_INTERVAL, work.as_mut()).await {
                return Ok(done);
            }
        }
    })
}

/// A bidirectional byte stream.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// TLS configuration that trusts the certificates in a file.
pub(crate) fn trusted(file: &Path, protocols: &[&[u8]]) -> Result<Arc<ClientConfig>> {
    let bytes =
        std::fs::read(file).map_err(|e| Error::io(format!("reading `{}`", file.display()), e))?;
    let bad = |e: &dyn std::fmt::Display| {
        Error::Target(format!(
            "`{}` holds no certificates in PEM form: {e}",
            file.display()
        ))
    };
    let mut roots = RootCertStore::empty();
    let mut wrong = None;
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|e| bad(&e))?;
        // Lists of systems contain some outdated or unusual certificates.
        if let Err(e) = roots.add(certificate) {
            wrong = Some(e);
        }
    }
    if let (true, Some(e)) = (roots.is_empty(), wrong) {
        return Err(bad(&e));
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(&e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    Ok(Arc::new(config))
}

/// Files in which systems keep trusted certificates.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The trusted certificates of this machine: the file named by `SSL_CERT_FILE`, otherwise the system's.
fn system() -> Option<PathBuf> {
    if let Some(file) = esker_access::environment::variable("SSL_CERT_FILE") {
        return Some(file.into());
    }
    SYSTEM.iter().map(PathBuf::from).find(|file| file.is_file())
}

impl Endpoint {
    /// Splits a URL into endpoint and path: `http://host:port/path?query`, or `https://` with the machine's trusted
    /// certificates.
    pub fn of_url(url: &str, patience: Duration) -> Result<(Self, String)> {
        let bad = |why: &str| Error::Invalid(format!("`{url}` cannot be asked: {why}"));
        let (rest, port, tls) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (rest, 80, None),
            (_, Some(rest)) => {
                let file = system().ok_or_else(|| {
                    bad(
                        "this machine has no list of certificates that it trusts where such lists are; set SSL_CERT_FILE to one",
                    )
                })?;
                (rest, 443, Some(file))
            }
            (None, None) => return Err(bad("only http:// and https:// are")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if authority.is_empty() || authority.contains('@') {
            return Err(bad("it names no host"));
        }
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, p)| p.bytes().all(|b| b.is_ascii_digit()));
        let host = match authority.rsplit_once(':') {
            Some((host, _)) if has_port => host,
            _ => authority,
        };
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let authority = if has_port {
            authority.to_owned()
        } else {
            format!("{authority}:{port}")
        };
        let place = Self::Tcp {
            authority,
            tls,
            host,
            patience,
            esker: None,
        };
        Ok((place, path))
    }

    pub(crate) async fn connect(&self) -> Result<OpenConnection, RequestError> {
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                Ok(OpenConnection::to(stream.map_err(RequestError::Connect)?))
            }
            Self::Tcp {
                esker: Some(address),
                ..
            } if address.by_host_key() => OpenConnection::by_host_key(address).await,
            Self::Tcp {
                authority,
                tls,
                host,
                patience,
                esker,
            } => {
                let stream = tokio::time::timeout(*patience, TcpStream::connect(authority)).await;
                let stream = stream.map_err(io::Error::from).flatten();
                let stream = stream.map_err(RequestError::Connect)?;
                stream.set_nodelay(true).map_err(RequestError::Connect)?;
                let Some(file) = tls else {
                    // A server of another user on this machine must prove its identity.
                    let auto = esker.as_ref().filter(|a| a.trust.encrypt == Encrypt::Auto);
                    if let (Some(address), Some(user)) = (auto, secure::other_user(&stream)) {
                        let connected = OpenConnection::by_host_key(address).await;
                        return connected.map_err(|e| match e {
                            RequestError::Other(Error::Target(why)) => RequestError::Other(
                                Error::Target(secure::other_user_message(user, &why)),
                            ),
                            e => e,
                        });
                    }
                    return Ok(OpenConnection::to(stream));
                };
                let config = trusted(file, &[b"http/1.1"]).map_err(RequestError::Other)?;
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other);
                let name = name.map_err(RequestError::Connect)?;
                let stream = TlsConnector::from(config).connect(name, stream).await;
                let stream = stream.map_err(RequestError::Connect)?;
                Ok(OpenConnection {
                    exporter: esker_access::tls::exporter_of(stream.get_ref().1),
                    stream: Box::new(stream),
                })
            }
        }
    }

    /// The token by which the user has logged in at this server, for an encrypted connection to it.
    pub(crate) async fn authorization(
        &self,
        exporter: Option<&[u8; EXPORTER_BYTES]>,
    ) -> Result<Option<http::HeaderValue>, RequestError> {
        let (
            Self::Tcp {
                esker: Some(address),
                ..
            },
            Some(_),
        ) = (self, exporter)
        else {
            return Ok(None);
        };
        let token = secure::authorization(address).await;
        let token = token.map_err(|e| RequestError::Other(e.into_error()))?;
        Ok(token.and_then(|token| token.parse().ok()))
    }

    /// Proves the client's identity before the first request on a connection. The response to that request shows
    /// whether the proof was
    /// sufficient.
    pub(crate) async fn prove(
        &self,
        exporter: Option<[u8; EXPORTER_BYTES]>,
        sender: &mut http1::SendRequest<OutgoingBody>,
    ) -> Result<Option<Error>, RequestError> {
        let Self::Tcp {
            esker: Some(address),
            authority,
            ..
        } = self
        else {
            return Ok(None);
        };
        if address.trust.anonymous {
            return Ok(None);
        }
        // An unencrypted connection has no TLS exporter to bind a proof to.
        if exporter.is_none() && address.tls.is_none() && !address.by_host_key() {
            return Ok(None);
        }
        let mut server = HttpTransport { authority, sender };
        match secure::prove(address, exporter.as_ref(), &mut server).await {
            Ok(()) => Ok(None),
            Err(CallError::Failed(e)) => Ok(Some(e)),
            Err(e) => Err(RequestError::Other(e.into_error())),
        }
    }

    /// Sends a request and waits for the head of its response.
    pub fn request<'a>(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: RequestBody<'_>,
        stop: Stop<'a>,
        until: Option<Instant>,
    ) -> Result<Response<'a>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::io("starting a client", e))?;
        let host = match self {
            Self::Tcp { authority, .. } => authority,
            Self::Unix(_) => "localhost",
        };
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = match body {
            RequestBody::Nothing => OutgoingBody::Whole(None),
            RequestBody::Bytes(bytes) => OutgoingBody::Whole(Some(Bytes::copy_from_slice(bytes))),
            RequestBody::Stream(from) => OutgoingBody::Reader(from),
        };
        let mut request = request
            .body(body)
            .map_err(|e| Error::Invalid(format!("`{path}` cannot be asked: {e}")))?;
        let exchange = async {
            let OpenConnection { stream, exporter } = self.connect().await?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
                .await
                .map_err(RequestError::Send)?;
            // Ends with the runtime, which the response owns.
            tokio::spawn(connection);
            let unproved = match self.authorization(exporter.as_ref()).await? {
                Some(token) => {
                    let headers = request.headers_mut();
                    headers.insert(http::header::AUTHORIZATION, token);
                    None
                }
                None => self.prove(exporter, &mut sender).await?,
            };
            sender.ready().await.map_err(RequestError::Send)?;
            let answer = sender
                .send_request(request)
                .await
                .map_err(RequestError::Send)?;
            match unproved {
                Some(e) if answer.status() == http::StatusCode::UNAUTHORIZED => {
                    Err(RequestError::Other(e))
                }
                _ => Ok(answer),
            }
        };
        let answer = match drive(&runtime, exchange, stop, until) {
            Ok(Ok(answer)) => answer,
            Ok(Err(RequestError::Connect(e))) if e.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(Error::Unavailable(format!(
                    "nothing listens at {self}: start a server there (`esker serve FOLDER --listen \
                     {self}`), or correct the address"
                )));
            }
            Ok(Err(RequestError::Connect(e))) => {
                return Err(Error::Unavailable(format!("cannot reach {self}: {e}")));
            }
            Ok(Err(RequestError::Other(e))) => return Err(e),
            Ok(Err(RequestError::Send(e))) => {
                return Err(Error::Unavailable(format!(
                    "{self} did not answer: {}",
                    all(&e)
                )));
            }
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                return Err(Error::Unavailable(format!("{self} did not answer in time")));
            }
            Err(_) => return Err(Error::Interrupted),
        };
        let (head, body) = answer.into_parts();
        Ok(Response {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            piece: Bytes::new(),
            stop,
            until,
            runtime,
        })
    }
}

pub(crate) enum RequestError {
    Connect(io::Error),
    Send(hyper::Error),
    /// An error with its own message.
    Other(Error),
}

impl RequestError {
    /// Description of the failure.
    pub(crate) fn message(self, place: &Endpoint) -> String {
        match self {
            Self::Connect(e) => format!("cannot reach {place}: {e}"),
            Self::Send(e) => format!("{place} did not answer: {}", all(&e)),
            Self::Other(e) => e.to_string(),
        }
    }
}

/// An open connection, and its TLS exporter.
pub(crate) struct OpenConnection {
    pub(crate) stream: Box<dyn ByteStream>,
    pub(crate) exporter: Option<[u8; EXPORTER_BYTES]>,
}

impl OpenConnection {
    fn to(stream: impl ByteStream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            exporter: None,
        }
    }

    /// Connects to a server that is identified by its host key.
    async fn by_host_key(address: &Address) -> Result<Self, RequestError> {
        let wire = secure::by_host_key(address, &[b"http/1.1"]).await;
        let wire = wire.map_err(|e| RequestError::Other(e.into_error()))?;
        Ok(Self {
            stream: Box::new(wire.stream),
            exporter: wire.exporter,
        })
    }
}

/// Sends the requests of a proof over HTTP.
struct HttpTransport<'a> {
    authority: &'a str,
    sender: &'a mut http1::SendRequest<OutgoingBody>,
}

impl ProofTransport for HttpTransport<'_> {
    fn send_proof<'a>(
        &'a mut self,
        request: proto::ProveRequest,
    ) -> Pin<Box<dyn Future<Output = Result<proto::ProveReply, CallError>> + Send + 'a>> {
        Box::pin(async move {
            let at = self.authority;
            let lost = |e: &dyn std::error::Error| {
                CallError::Lost(format!("{at} did not answer: {}", all(e)))
            };
            let message = http::Request::post(PROVE)
                .header("host", at)
                .header("content-type", "application/x-protobuf")
                .body(OutgoingBody::Whole(Some(request.encode_to_vec().into())))
                .map_err(|e| lost(&e))?;
            self.sender.ready().await.map_err(|e| lost(&e))?;
            let answer = self.sender.send_request(message).await;
            let (head, body) = answer.map_err(|e| lost(&e))?.into_parts();
            let bytes = read_body(body).await.map_err(|e| lost(&e))?;
            if head.status == http::StatusCode::OK {
                return proto::ProveReply::decode(bytes).map_err(|e| lost(&e));
            }
            let words = String::from_utf8_lossy(&bytes).trim().to_owned();
            Err(CallError::Failed(Error::Target(format!("{at}: {words}"))))
        })
    }
}

/// Path of the endpoint that checks proofs.
const PROVE: &str = "/api/v1/prove";
/// Maximum bytes of its response.
const PROVED_BYTES_MAX: usize = 64 << 10;

/// Reads a short body.
async fn read_body(mut body: Incoming) -> Result<Bytes, hyper::Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(data) = frame?.into_data()
            && bytes.len() + data.len() <= PROVED_BYTES_MAX
        {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_place_and_a_path() {
        let read = |url: &str| {
            let (place, path) = Endpoint::of_url(url, POLL_INTERVAL).unwrap();
            (place.to_string(), path)
        };
        assert_eq!(
            read("http://lab.example/sparql?x=1#y"),
            ("lab.example:80".into(), "/sparql?x=1".into())
        );
        assert_eq!(read("http://[::1]:9"), ("[::1]:9".into(), "/".into()));
        assert_eq!(
            read("https://lab.example/x"),
            ("lab.example:443".into(), "/x".into())
        );
        for url in ["ftp://lab/x", "http:///x", "http://a@b/x", "file:///x"] {
            assert!(Endpoint::of_url(url, POLL_INTERVAL).is_err(), "{url}");
        }
    }

    #[test]
    fn an_unreachable_server_is_named() {
        let (place, path) = Endpoint::of_url("http://127.0.0.1:1/x", POLL_INTERVAL).unwrap();
        let e = place
            .request("GET", &path, &[], RequestBody::Nothing, &|| false, None)
            .unwrap_err();
        assert!(
            e.to_string()
                .starts_with("nothing listens at 127.0.0.1:1: "),
            "{e}"
        );
        let stopped = place.request("GET", &path, &[], RequestBody::Nothing, &|| true, None);
        assert!(matches!(stopped, Err(Error::Interrupted)));
    }
}
