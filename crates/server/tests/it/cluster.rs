//! Servers of a cluster that cannot reach each other, or that are configured for different clusters.

use crate::common::{Served, settings};
use esker::OpenOptions;
use esker_model::filter::Expr;
use esker_model::object::{Find, Identity, ObjectRead as _};
use esker_model::{
    Batch, ErrorKind, Flow, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties, Version,
};
use esker_rpc::{Address, PeerLink, proto};
use esker_server::{ClusterConfig, Server};
use esker_testkit::port::free_port;
use esker_testkit::wait::eventually;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// A cluster of two servers on ports that are probably free.
pub(crate) fn config(folder: &Path, more: &str) -> ClusterConfig {
    let text = format!(
        "servers = [\"127.0.0.1:{}\", \"127.0.0.1:{}\"]\nvnodes = 8\n{more}",
        free_port(),
        free_port()
    );
    ClusterConfig::from_toml(&folder.join("lab.toml"), &text).unwrap()
}

pub(crate) fn start(config: &ClusterConfig, id: u32) -> Server {
    config.claim_storage().unwrap();
    let folder = config.folder(esker_cluster::ServerId(id));
    let database = OpenOptions::new()
        .create(true)
        .memory_bytes(32 << 20)
        .part_of("it is a part")
        .open(folder.to_str().unwrap())
        .unwrap();
    Server::start_in(database, config, id).unwrap()
}

fn ready(address: SocketAddr) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

/// Waits until `/readyz` contains a text.
pub(crate) fn until(address: SocketAddr, expected: &str) {
    eventually(|| {
        let (_, said) = ready(address);
        if said.contains(expected) {
            Ok(())
        } else {
            Err(said)
        }
    });
}

/// Two servers of a cluster that serve clients.
pub(crate) fn two(folder: &Path) -> (Server, Server) {
    let config = config(folder, "directory_threshold = 4\n");
    let (first, second) = (start(&config, 0), start(&config, 1));
    until(first.address(), "ready");
    until(second.address(), "ready");
    (first, second)
}

#[test]
fn a_server_waits_for_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "");
    let first = start(&config, 0);
    until(first.address(), "nothing listens at");
    let (status, said) = ready(first.address());
    assert_eq!(status, 503);
    assert!(
        said.contains("server 0 waits for the other servers of the cluster: server 1 ("),
        "{said}"
    );
    // Clients get the same message once their patience ends.
    let target = format!("esker://{}?timeout=300ms", first.address());
    let database = eventually(|| OpenOptions::new().open(&target));
    eventually(|| {
        let refused = database.counts().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        let told = refused.to_string().contains("server 1 (");
        told.then_some(()).ok_or(refused)
    });
    let second = start(&config, 1);
    until(first.address(), "ready");
    until(second.address(), "ready");
    let counts = eventually(|| database.counts());
    assert!(counts.vertices.iter().all(|(_, n)| *n == 0));
    drop(database);
    assert!(first.stop().unwrap());
    assert!(second.stop().unwrap());
}

/// A search met a server that was away, and was cut off behind it. The client repeated it behind the last object, where nobody missed the
/// server that was away: its objects were not there, and the report said that the result was complete.
#[test]
fn a_search_that_is_cut_off_names_the_servers_that_were_away() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "drain = \"0s\"\n");
    let mut servers = vec![start(&config, 0), start(&config, 1)];
    let addresses = [servers[0].address(), servers[1].address()];
    addresses.iter().for_each(|at| until(*at, "ready"));
    let target = format!("esker://{}", addresses[1]);
    let database = OpenOptions::new().open(&target).unwrap();
    let mut batch = Batch::new();
    for step in 0..8_000 {
        batch.push(Op::CreateObject {
            identity: Identity {
                name: "large".into(),
                app: String::new(),
                owner: 1,
                step,
            },
            attributes: Properties::new(),
            tags: Properties::new().with("note", "n".repeat(1_000)),
        });
    }
    database.apply(batch).unwrap();
    servers.remove(0).stop().unwrap();
    let mut found = 0;
    let report = database.find(&Find::all(Expr::All), &NeverCancel, &mut |_| {
        if found == 0 {
            // The answer is larger than what is read ahead.
            servers.remove(0).stop().unwrap();
            servers.extend([start(&config, 0), start(&config, 1)]);
            addresses.iter().for_each(|at| until(*at, "ready"));
        }
        found += 1;
        Flow::Continue(())
    });
    let report = report.unwrap();
    assert!(found < 8_000, "server 0 was away");
    assert_eq!((report.complete, &report.missing[..]), (false, &[0][..]));
    assert_eq!(report.matches, found);
}

/// Sends a request of a session; returns the status, the version that the session has seen then, and the answer.
fn request_in_session(
    address: SocketAddr,
    request: &str,
    seen: &str,
    body: &str,
) -> (u16, Option<u64>, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nesker-at-least: {seen}\r\n\
         content-type: application/x-ndjson\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let header = answer
        .lines()
        .find_map(|line| line.strip_prefix("esker-at-least: "));
    let seen = header.map(|seen| seen.parse().unwrap());
    (status, seen, answer)
}

/// A client over HTTP could not say what it had seen, so it missed its own write when it read through a server whose clock was behind.
#[test]
fn sessions_over_http_read_their_writes_through_any_server() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = two(dir.path());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = u64::try_from(now.unwrap().as_millis()).unwrap();
    for n in 0..8 {
        // Each write is minutes later than anything that the second server knows, as if the first one's clock were fast.
        let fast = Version::new(now + (n + 1) * 400_000, 0);
        let line = format!("{{\"op\":\"put_vertex\",\"id\":\"job:{n}\"}}\n");
        let apply = "POST /api/v1/apply";
        let (status, seen, said) =
            request_in_session(first.address(), apply, &fast.0.to_string(), &line);
        assert_eq!(status, 200, "{said}");
        let seen = seen.unwrap();
        assert!(seen > fast.0);
        let get = format!("GET /api/v1/vertex?id=job:{n}");
        let (status, later, said) =
            request_in_session(second.address(), &get, &seen.to_string(), "");
        assert_eq!(status, 200, "{said}");
        assert!(later.unwrap() >= seen);
    }
    let get = "GET /api/v1/vertex?id=job:1";
    let (status, _, said) = request_in_session(second.address(), get, "yesterday", "");
    assert_eq!(status, 400);
    assert!(
        said.contains("header `esker-at-least`: expected a version"),
        "{said}"
    );
    assert!(first.stop().unwrap());
    assert!(second.stop().unwrap());
}

/// The servers prove their common key instead.
#[test]
fn servers_find_each_other_without_authentication_by_user() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "access.loopback = \"off\"\n");
    let (first, second) = (start(&config, 0), start(&config, 1));
    until(first.address(), "ready");
    until(second.address(), "ready");
    let target = format!("esker://{}?plain=on", first.address());
    let refused = OpenOptions::new().open(&target).map(|_| ());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("access.loopback"), "{refused}");
    drop((first, second));
}

#[test]
fn servers_with_different_files_do_not_join() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "threshold = 128\n");
    let other = ClusterConfig {
        threshold: 256,
        ..config.clone()
    };
    let (first, second) = (start(&config, 0), start(&other, 1));
    until(
        second.address(),
        "server 1 runs with threshold 256, server 0 with 128: give both the same cluster file",
    );
    until(
        first.address(),
        "server 0 runs with threshold 128, server 1 with 256: give both the same cluster file",
    );
    drop((first, second));
}

#[test]
fn strangers_are_not_answered() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let link = |address: SocketAddr, peer: proto::Peer| {
        let address = Address::parse(&format!("esker://{address}")).unwrap();
        let opened = runtime.block_on(PeerLink::open(&address, peer));
        opened.map(|_| ()).unwrap_err().to_string()
    };
    let alone = Served::start(settings());
    let said = link(alone.server.address(), proto::Peer::default());
    assert!(said.contains("this is a single server"), "{said}");

    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "name = \"lab\"\n");
    let server = start(&config, 0);
    let peer = proto::Peer {
        cluster: "home".into(),
        from: 1,
        ..proto::Peer::default()
    };
    let said = link(server.address(), peer);
    assert!(
        said.contains("belongs to cluster `lab`; the caller belongs to cluster `home`"),
        "{said}"
    );
    drop(server);
}
