//! Connections and servers that end with open requests.

use super::relay::Relay;
use super::servers::{Kind, Server, is_root};
use super::tree::{Times, same};
use crate::servers::patient;
use esker_origin::ftp::{Ftp, FtpSettings};
use esker_origin::{MetadataRequest, PathMetadata, Pool};
use esker_testkit::wait::ends;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

async fn request(
    server: &Server,
    pool: &Pool,
    count: usize,
    answered: &AtomicUsize,
) -> (usize, usize) {
    let asked = (0..count).map(|n| {
        let below = match n % 7 {
            0 => "dir/nothing".into(),
            _ => format!("thousand/n{:04}", n % 1000),
        };
        let request = MetadataRequest::stat(&server.path(below.as_bytes()));
        async move {
            let found = pool.request(request).await;
            answered.fetch_add(1, Ordering::Relaxed);
            (below, found)
        }
    });
    let (mut good, mut bad) = (0, 0);
    for (below, found) in futures_util::future::join_all(asked).await {
        let path = server.tree.at(below.as_bytes());
        match found {
            Ok(PathMetadata::Present(attributes)) => same(&path, &attributes, Times::Seconds),
            Ok(PathMetadata::Absent) => assert!(!path.exists(), "{below}"),
            Err(error) => {
                assert!(error.is_transient(), "{below}: {error}");
                bad += 1;
                continue;
            }
            found => panic!("{below}: {found:?}"),
        }
        good += 1;
    }
    (good, bad)
}

/// A connection is cut at every position of a reply: its requests are retried on another one, and none gets another's response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_lose_no_question() {
    if !is_root() {
        return;
    }
    for kind in [Kind::Proftpd, Kind::Globus] {
        let server = Server::start(kind);
        let relay = Relay::start(server.port, Duration::ZERO).await;
        let pool = server.pool_at(relay.port, 2, 64);
        let (mut good, mut bad) = (0, 0);
        for round in 0..20 {
            relay.cut_after(4_000 + round * 1_237);
            let (these, others) = request(&server, &pool, 300, &AtomicUsize::new(0)).await;
            good += these;
            bad += others;
        }
        assert!(relay.cuts() >= 10, "{}", relay.cuts());
        assert!(pool.report().retries > 0);
        // A request fails only if its connection is cut three times.
        assert_eq!((good, bad), (6_000, 0), "{kind:?}");
    }
}

/// `ProFTPD` takes seconds for `STAT` of a large directory, here without bound, and cannot be interrupted: the connection is
/// abandoned, and the directory is listed over a data channel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_that_takes_too_long_is_had_otherwise() {
    if !is_root() {
        return;
    }
    let server = Server::start(Kind::Proftpd);
    std::fs::create_dir(server.tree.at(b"large directory")).unwrap();
    for n in 0..20_000 {
        let path = server.tree.at(format!("large directory/{n}").as_bytes());
        std::fs::write(path, b"").unwrap();
    }
    // A listing on the control channel may take a quarter of this time.
    let settings = FtpSettings {
        silence: Duration::from_secs(20),
        ..server.settings()
    };
    let relay = Relay::start(server.port, Duration::ZERO).await;
    relay.stall_at(b"STAT -a /large directory");
    let ftp = Ftp::new(server.origin_url(relay.port), settings).unwrap();
    let pool = Pool::new(Arc::new(ftp), patient());
    // Other requests on the same connection are answered on another one.
    let list = pool.request(MetadataRequest::list(b"/large directory"));
    let more = (0..50).map(|_| pool.request(MetadataRequest::stat(b"/file")));
    let (listed, more) = tokio::join!(list, futures_util::future::join_all(more));
    for found in more {
        assert!(matches!(found, Ok(PathMetadata::Present(_))), "{found:?}");
    }
    let Ok(PathMetadata::Listing {
        children, complete, ..
    }) = listed
    else {
        panic!("{listed:?}")
    };
    assert_eq!((children.len(), complete), (20_000, true));
    assert!(pool.report().retries > 0);
    // Small directories are still listed on the control channel.
    let listed = pool.request(MetadataRequest::list(b"/dir")).await;
    assert!(
        matches!(listed, Ok(PathMetadata::Listing { .. })),
        "{listed:?}"
    );
    let about = pool.report().about;
    assert!(about.contains("listings by STAT"), "{about}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_leaves_clear_errors() {
    if !is_root() {
        return;
    }
    for kind in [Kind::Vsftpd, Kind::Proftpd, Kind::Globus] {
        let mut server = Server::start(kind);
        let pool = server.pool(2, 64);
        pool.request(MetadataRequest::stat(&server.path(b"file")))
            .await
            .unwrap();
        let answered = AtomicUsize::new(0);
        let kill = async {
            while answered.load(Ordering::Relaxed) < 500 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            server.signal("-9");
        };
        let asked = request(&server, &pool, 20_000, &answered);
        let ((good, bad), ()) = ends(async { tokio::join!(asked, kill) }).await;
        assert!(bad > 0 && good > 0, "{kind:?}: {good} and {bad}");
        let error = pool
            .request(MetadataRequest::stat(b"/file"))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("cannot be reached"), "{error}");
        server.kill();
    }
}
