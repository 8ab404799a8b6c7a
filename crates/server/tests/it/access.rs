//! Proofs on the wire, by a misbehaving client: replays, relays, incomplete proofs, requests beyond its rights.
//!
//! The kernel would identify this process as the owner's, so it connects to an address of this machine that is not loopback.

use crate::common::{http, settings};
use esker::OpenOptions;
use esker_access::authorized::Terms;
use esker_access::{HostKey, Identity, Role, grants, proof, tls};
use esker_rpc::proto::access_client::AccessClient;
use esker_rpc::proto::esker_client::EskerClient;
use esker_rpc::{Address, PROTOCOL, PeerLink, proto};
use esker_server::{Server, Settings};
use esker_testkit::wait::eventually;
use hyper_util::rt::TokioIo;
use std::future::{Ready, ready};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A server that other machines could reach, and a key with the role `write`.
struct Lab {
    server: Server,
    folder: PathBuf,
    ann: HostKey,
    runtime: Runtime,
    _dir: tempfile::TempDir,
}

/// An address of this machine that is not loopback.
pub(crate) fn outside() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.77:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    if address.is_loopback() {
        eprintln!("skipped: this machine has no address but loopback");
        return None;
    }
    Some(address.to_string())
}

impl Lab {
    fn start() -> Option<Self> {
        let listen = format!("{}:0", outside()?);
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("lab.esker");
        let options = OpenOptions::new().create(true).memory_bytes(32 << 20);
        let database = options.open(folder.to_str().unwrap()).unwrap();
        let ann = HostKey::generate().unwrap();
        let terms = Terms {
            role: Some(Role::Write),
            ..Terms::default()
        };
        grants::grant(&folder, ann.public(), &terms).unwrap();
        let server = Server::start(
            database,
            Settings {
                listen,
                ..settings()
            },
        );
        Some(Self {
            server: server.unwrap(),
            folder,
            ann,
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap(),
            _dir: dir,
        })
    }

    /// Opens a TLS connection; returns it with the keying material for a proof.
    fn connect(&self) -> (Channel, [u8; 32]) {
        let at = self.server.address();
        self.runtime.block_on(async {
            let client = tls::Client::new(&[b"h2"]).unwrap();
            let stream = TcpStream::connect(at).await.unwrap();
            let connector = TlsConnector::from(client.config());
            let name = tls::Client::name().unwrap();
            let stream = connector.connect(name, stream).await.unwrap();
            let exporter = tls::exporter_of(stream.get_ref().1).unwrap();
            let endpoint = Endpoint::from_shared(format!("http://{at}")).unwrap();
            let once = SingleConnection(Some(stream));
            let channel = endpoint.connect_with_connector(once).await.unwrap();
            (channel, exporter)
        })
    }

    fn prove(&self, channel: &Channel, proof: &[u8]) -> Result<proto::ProveReply, Status> {
        let mut client = AccessClient::new(channel.clone());
        let request = proto::ProveRequest {
            proof: proof.to_vec(),
            ..Default::default()
        };
        let reply = self.runtime.block_on(client.prove(request));
        reply.map(tonic::Response::into_inner)
    }

    fn ping(&self, channel: &Channel) -> Result<(), Status> {
        let mut client = EskerClient::new(channel.clone());
        let reply = self.runtime.block_on(client.ping(proto::PingRequest {}));
        reply.map(|_| ())
    }

    fn by_ann(&self, exporter: &[u8; 32]) -> Vec<u8> {
        let signature = Identity::of_host(self.ann.clone()).prove(exporter).unwrap();
        proof::to_text(&signature).unwrap().into_bytes()
    }
}

pub(crate) struct SingleConnection(pub(crate) Option<TlsStream<TcpStream>>);

impl tower_service::Service<http::Uri> for SingleConnection {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        ready(
            self.0
                .take()
                .map(TokioIo::new)
                .ok_or(io::ErrorKind::NotConnected.into()),
        )
    }
}

#[test]
fn a_proof_is_good_on_its_own_connection_only() {
    let Some(lab) = Lab::start() else { return };
    let (first, exporter) = lab.connect();
    let nobody = lab.ping(&first).unwrap_err();
    assert_eq!(nobody.code(), Code::Unauthenticated, "{nobody}");
    let captured = lab.by_ann(&exporter);
    assert_eq!(lab.prove(&first, &captured).unwrap().role, "write");
    lab.ping(&first).unwrap();
    // Another client replays the proof on a connection of its own, as in a relay attack.
    let (second, other) = lab.connect();
    assert_ne!(other, exporter);
    let refused = lab.prove(&second, &captured).unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(
        refused.message().contains("valid only on the connection"),
        "{refused}"
    );
    assert!(lab.ping(&second).is_err());
    // Another client would need ann's signature over its own connection.
    assert!(lab.prove(&second, &lab.by_ann(&other)).is_ok());
    let wrong = lab
        .prove(&second, b"-----BEGIN SSH SIGNATURE-----\n")
        .unwrap_err();
    assert!(wrong.message().contains("not an SSH signature"), "{wrong}");
    let (_, _, metrics) = {
        // Listing grants without a proof is refused, too.
        http(lab.server.address(), "GET", "/metrics", "")
    };
    assert!(metrics.contains("not encrypted"), "{metrics}");
}

#[test]
fn a_key_without_rights_and_one_after_revocation_are_refused() {
    let Some(lab) = Lab::start() else { return };
    let stranger = HostKey::generate().unwrap();
    let (channel, exporter) = lab.connect();
    let signature = Identity::of_host(stranger.clone())
        .prove(&exporter)
        .unwrap();
    let text = proof::to_text(&signature).unwrap();
    let refused = lab.prove(&channel, text.as_bytes()).unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(
        refused.message().contains("has no rights here"),
        "{refused}"
    );
    assert!(
        refused.message().contains(&stranger.fingerprint()),
        "{refused}"
    );
    // A client with rights has them until they are revoked, on the same connection.
    lab.prove(&channel, &lab.by_ann(&exporter)).unwrap();
    lab.ping(&channel).unwrap();
    let key = lab.ann.public().to_openssh().unwrap();
    grants::revoke(&lab.folder, &key).unwrap();
    // The server checks its access files twice a second.
    let refused = eventually(|| lab.ping(&channel).err().ok_or("it has rights still"));
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("it was revoked"), "{refused}");
}

/// Calls of all kinds by a client that proved nothing.
#[test]
fn nothing_is_answered_before_a_proof() {
    let Some(lab) = Lab::start() else { return };
    let (channel, _) = lab.connect();
    let mut grpc = EskerClient::new(channel.clone());
    let mut access = AccessClient::new(channel);
    let codes = lab.runtime.block_on(async {
        let hello = proto::ToServer {
            hello: Some(proto::Hello {
                protocol: PROTOCOL,
                version: "0.0.9".into(),
                peer: None,
                ..Default::default()
            }),
            ..Default::default()
        };
        let exchange = grpc
            .exchange(tonic::codegen::tokio_stream::once(hello))
            .await;
        let exchange = exchange.map(|_| ()).unwrap_err();
        // A client of an older release shows this message unchanged.
        assert!(
            exchange.message().contains("this server asks for a key"),
            "{exchange}"
        );
        let grant = proto::GrantRequest::default();
        let token = proto::TokenRequest::default();
        [
            exchange.code(),
            grpc.schema(proto::SchemaRequest {})
                .await
                .unwrap_err()
                .code(),
            grpc.apply(proto::ApplyRequest::default())
                .await
                .unwrap_err()
                .code(),
            grpc.travel(proto::TravelRequest::default())
                .await
                .unwrap_err()
                .code(),
            grpc.backup(proto::BackupRequest::default())
                .await
                .unwrap_err()
                .code(),
            access.grant(grant).await.unwrap_err().code(),
            access.token(token).await.unwrap_err().code(),
            access
                .grants(proto::GrantsRequest {})
                .await
                .unwrap_err()
                .code(),
        ]
    });
    assert_eq!(codes[0], Code::FailedPrecondition);
    assert!(
        codes[1..].iter().all(|c| *c == Code::Unauthenticated),
        "{codes:?}"
    );
}

/// A client of a release without keys: no TLS, no `Prove`.
#[test]
fn an_older_client_is_told_what_to_do() {
    let Some(lab) = Lab::start() else { return };
    let at: SocketAddr = lab.server.address();
    let refused = lab.runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{at}")).unwrap();
        let mut client = EskerClient::new(endpoint.connect().await.unwrap());
        client.stats(proto::StatsRequest {}).await.unwrap_err()
    });
    assert!(
        refused
            .message()
            .contains("the connection is not encrypted"),
        "{refused}"
    );
    let (status, _, body) = http(at, "GET", "/api/v1/schema", "");
    assert_eq!(status, 401, "{body}");
    assert_eq!(http(at, "GET", "/healthz", "").0, 200);
}

/// Servers of a cluster authenticate each other with their common host key.
#[test]
fn the_host_key_is_as_good_as_the_database() {
    let Some(lab) = Lab::start() else { return };
    let host = HostKey::open_or_create(&lab.folder.join("host_key")).unwrap();
    let (channel, exporter) = lab.connect();
    let text = proof::to_text(&host.prove(&exporter).unwrap()).unwrap();
    assert_eq!(lab.prove(&channel, text.as_bytes()).unwrap().role, "admin");
}

/// A client's key never makes it a server, whatever its role; and a server refuses one with another key than its own.
#[test]
fn nobody_greets_as_a_server_without_the_host_key() {
    let Some(lab) = Lab::start() else { return };
    let (channel, exporter) = lab.connect();
    lab.prove(&channel, &lab.by_ann(&exporter)).unwrap();
    let mut client = EskerClient::new(channel);
    let hello = proto::ToServer {
        hello: Some(proto::Hello {
            protocol: PROTOCOL,
            version: "0.1.0".into(),
            peer: Some(proto::Peer::default()),
            ..Default::default()
        }),
        ..Default::default()
    };
    let greeting = client.exchange(tonic::codegen::tokio_stream::once(hello));
    let refused = lab.runtime.block_on(greeting).map(|_| ()).unwrap_err();
    assert!(
        refused.message().contains("only servers of a cluster"),
        "{refused}"
    );
    let mut address = Address::parse(&format!("esker://{}", lab.server.address())).unwrap();
    let open = |address: &Address| {
        let opened = PeerLink::open(address, proto::Peer::default());
        let refused = lab.runtime.block_on(opened).map(|_| ()).unwrap_err();
        refused.to_string()
    };
    address.trust.own = Some(HostKey::generate().unwrap());
    let said = open(&address);
    assert!(said.contains("another host key than this server"), "{said}");
    // With the right key, the answer is that there is no cluster.
    address.trust.own = Some(HostKey::open_or_create(&lab.folder.join("host_key")).unwrap());
    let said = open(&address);
    assert!(said.contains("this is a single server"), "{said}");
}
