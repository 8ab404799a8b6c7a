//! Machines that try to exhaust a tier. They are other loopback addresses, which connect to an address of this machine that is not
//! loopback: there, a tier identifies its clients only by address.

use crate::sources::{connect, outside};
use crate::tiers::tier;
use esker_access::authorized::Terms;
use esker_access::tls::Client as Tls;
use esker_access::{HostKey, Role, grants, proof};
use esker_rpc::proto;
use esker_site::serve::RunningTier;
use esker_site::{Client, Config, MetadataQuery};
use esker_site_cache::entry::Wants;
use prost::Message as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Time after which a test counts as hanging.
const HANG: Duration = Duration::from_mins(2);

/// A tier reachable from other machines, the key of a client, and the path that the client requests.
struct Reached {
    tier: Arc<RunningTier>,
    at: SocketAddr,
    ann: HostKey,
    home: tempfile::TempDir,
}

impl Reached {
    /// Returns `None` on a machine with loopback addresses only.
    async fn start(change: impl FnOnce(&mut Config)) -> Option<Self> {
        let host = outside()?;
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("name"), "x").unwrap();
        let ann = HostKey::open_or_create(&home.path().join("key")).unwrap();
        let rights = home.path().join("rights");
        let tier = tier(&[], |c| {
            c.listen = format!("{host}:0");
            c.access_folder = Some(rights.clone());
            change(c);
        })
        .await;
        let terms = Terms {
            role: Some(Role::Read),
            ..Terms::default()
        };
        grants::grant(&rights, ann.public(), &terms).unwrap();
        let at = tier.url.strip_prefix("esker://").unwrap().parse().unwrap();
        Some(Self {
            tier,
            at,
            ann,
            home,
        })
    }

    /// Returns Ann's client, which proves her key.
    async fn client(&self) -> Client {
        let file = |name: &str| -> PathBuf { self.home.path().join(name) };
        let (key, known) = (file("key"), file("known_hosts"));
        let url = format!(
            "{}?key={}&known-hosts={}&trust-new-host",
            self.tier.url,
            key.display(),
            known.display()
        );
        Client::connect(&url, "test").await.unwrap()
    }

    /// Checks that her request is answered.
    async fn answers(&self, client: &Client) {
        let path = self.home.path().to_str().unwrap().as_bytes();
        let asked = client
            .query(MetadataQuery::new("file://", path, Wants::List))
            .await;
        assert!(asked.is_ok(), "{asked:?}");
    }

    /// Returns the complete response to a proof, valid or not, from 127.0.0.`last`.
    async fn prove(&self, last: u8, keys: Vec<String>, proof: Vec<u8>) -> String {
        let stream = connect(last, self.at).await.unwrap();
        let tls = Tls::new(&[b"http/1.1"]).unwrap();
        let connector = TlsConnector::from(tls.config());
        let stream = connector.connect(Tls::name().unwrap(), stream).await;
        let body = proto::ProveRequest {
            keys,
            proof,
            ..Default::default()
        };
        let body = body.encode_to_vec();
        request(stream.unwrap(), "POST /api/v1/prove", &body).await
    }
}

/// Returns the complete response to a request over HTTP/1.1.
async fn request(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    what: &str,
    body: &[u8],
) -> String {
    let length = body.len();
    let head = format!(
        "{what} HTTP/1.1\r\nhost: tier\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    // A tier that closes at once leaves no answer.
    let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn closes(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(HANG, stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "a silent connection is open still");
}

/// One address opens more connections than the tier has, and sends nothing, one byte, or half of a TLS handshake.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_says_nothing_leaves_room_for_others() {
    let Some(reached) = Reached::start(|c| c.connections = 40).await else {
        return;
    };
    let mut silent = Vec::new();
    for n in 0..120 {
        let mut stream = connect(2, reached.at).await.unwrap();
        let says: &[u8] = [&[][..], b"G", &[22, 3, 1]][n % 3];
        let _ = stream.write_all(says).await;
        silent.push(stream);
    }
    let client = reached.client().await;
    reached.answers(&client).await;
    for stream in silent {
        closes(stream).await;
    }
    // Authenticated clients stay connected.
    reached.answers(&client).await;
}

/// One address uses all its connections: it gets a refusal, and others are answered.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_one_address_have_a_number() {
    let Some(reached) = Reached::start(|c| c.connections_each = 2).await else {
        return;
    };
    let until = Instant::now() + HANG;
    let said = loop {
        // Silent connections are closed after some seconds.
        let held = (connect(2, reached.at).await, connect(2, reached.at).await);
        let stream = connect(2, reached.at).await.unwrap();
        let said = request(stream, "GET /health", b"").await;
        drop(held);
        if said.starts_with("HTTP/1.1 429") || Instant::now() > until {
            break said;
        }
    };
    assert!(
        said.contains("the tier has 2 connections of 127.0.0.2, the maximum"),
        "{said}"
    );
    assert!(said.contains("retry-after: 1"), "{said}");
    let other = connect(3, reached.at).await.unwrap();
    let said = request(other, "GET /health", b"").await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    reached.answers(&reached.client().await).await;
}

/// A source that fails to prove a key repeatedly is blocked for a while; a client with a valid key at the same address is admitted.
#[tokio::test(flavor = "multi_thread")]
async fn failed_proofs_are_answered_ever_later() {
    let Some(reached) = Reached::start(|_| {}).await else {
        return;
    };
    let text = |key: &HostKey| vec![key.public().to_openssh().unwrap()];
    let ann = text(&reached.ann);
    // A key that has rights, with a signature for another connection.
    let wrong = proof::to_text(&reached.ann.prove(&[7; 32]).unwrap()).unwrap();
    let wrong = wrong.into_bytes();
    let said = reached.prove(2, ann.clone(), wrong.clone()).await;
    assert!(
        said.starts_with("HTTP/1.1 401") && said.contains("the proof is refused"),
        "{said}"
    );
    let other = text(&HostKey::generate().unwrap());
    let until = Instant::now() + HANG;
    loop {
        let said = reached.prove(2, other.clone(), Vec::new()).await;
        if said.contains("127.0.0.2 has failed to prove who it is too often: try again in") {
            break;
        }
        assert!(
            said.contains("none of the presented keys has rights"),
            "{said}"
        );
        assert!(Instant::now() < until, "failures are answered as one is");
    }
    // Its proofs are not even checked.
    let said = reached.prove(2, Vec::new(), wrong).await;
    assert!(said.contains("too often"), "{said}");
    let said = reached.prove(2, ann, Vec::new()).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let said = reached.prove(3, other, Vec::new()).await;
    assert!(
        said.contains("none of the presented keys has rights"),
        "{said}"
    );
    reached.answers(&reached.client().await).await;
}
