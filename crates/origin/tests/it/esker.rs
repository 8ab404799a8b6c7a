//! Another Esker as a process, from the binary of the workspace build.

use crate::battery::{NO_TEXT, ODD, Site, Tree, chmod};
use crate::servers::{Running, free_port, patient};
use esker_origin::esker::Esker;
use esker_origin::{Error, MetadataRequest, Notification, OriginUrl, PathMetadata, Pool, Settings};
use esker_site_cache::entry::{Attributes, Kind};
use esker_testkit::signal::signal;
use esker_testkit::wait::{HANG, ends, eventually_async};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// The binary; prints that the test is skipped without it.
#[expect(clippy::print_stderr, reason = "a test that was skipped must be seen")]
fn binary() -> Option<PathBuf> {
    let binary = esker_testkit::program::esker();
    if binary.is_none() {
        eprintln!("skipped: there is no command: build all, or name one by ESKER_BIN");
    }
    binary
}

fn serve(binary: &Path, folder: &Path, port: u16) -> Running {
    let listen = format!("127.0.0.1:{port}");
    let mut command = Command::new(binary);
    command
        .args(["serve", "lab.esker", "--create", "--quiet"])
        .args(["--memory", "32MiB", "--listen", &listen])
        .current_dir(folder);
    Running::start(&mut command, port)
}

fn pool(port: u16, patience: Duration) -> Pool {
    let (origin_url, _) = OriginUrl::parse(&format!("esker://127.0.0.1:{port}/")).unwrap();
    let settings = Settings {
        patience,
        connections: 1,
        ..patient()
    };
    let esker = Esker::new(origin_url, patience * 2 / 3).unwrap();
    Pool::new(Arc::new(esker), settings)
}

/// Scans the tree into the namespace, at its own path.
fn take_in(binary: &Path, folder: &Path, port: u16, tree: &Tree) {
    let taken = Command::new(binary)
        .args(["import", "tree", &format!("esker://127.0.0.1:{port}")])
        .arg(tree.root())
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(taken.status.success(), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_battery() {
    let Some(binary) = binary() else { return };
    let names = [&ODD[..], &NO_TEXT[..]].concat();
    let tree = Tree::new(&names);
    chmod(&tree.root().join("secret"), 0o700);
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let _server = serve(&binary, folder.path(), port);
    take_in(&binary, folder.path(), port, &tree);
    let site = Site {
        pool: pool(port, HANG),
        root: tree.root().into(),
        prefix: tree.root().to_str().unwrap().into(),
        lacks: &[],
    };
    site.all(5_000).await;
    let report = site.pool.report();
    assert_eq!(
        (report.connections, report.retries, report.failed),
        (1, 0, 0)
    );
    assert!(report.about.starts_with("Esker "), "{}", report.about);
    // No file name can be this long.
    let long = site.stat(&[b'x'; 300]).await.unwrap();
    assert_eq!(long, PathMetadata::Absent);
    // Many long concurrent listings share one connection.
    let listings = (0..40).map(|_| site.list(b"thousand"));
    for listed in futures_util::future::join_all(listings).await {
        let PathMetadata::Listing { children, .. } = listed.unwrap() else {
            panic!("no listing")
        };
        assert_eq!(children.len(), 1000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_dies_and_comes_back() {
    let Some(binary) = binary() else { return };
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let server = serve(&binary, folder.path(), port);
    let pool = pool(port, Duration::from_secs(3));
    let root = MetadataRequest::list(b"/");
    let there = async || {
        let found = eventually_async(async || pool.request(root.clone()).await).await;
        assert!(matches!(
            found,
            PathMetadata::Listing { complete: true, .. }
        ));
    };
    there().await;
    signal(server.process.id(), "STOP");
    let error = ends(pool.request(root.clone())).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    signal(server.process.id(), "CONT");
    there().await;
    // The server dies with open requests.
    let asked: Vec<_> = (0..50)
        .map(|_| {
            let (pool, root) = (pool.clone(), root.clone());
            tokio::spawn(async move { pool.request(root).await })
        })
        .collect();
    signal(server.process.id(), "KILL");
    drop(server);
    for answer in asked {
        if let Err(error) = answer.await.unwrap() {
            assert!(error.is_transient(), "{error}");
        }
    }
    assert!(pool.request(root.clone()).await.is_err());
    let _server = serve(&binary, folder.path(), port);
    there().await;
}

/// Changes by other clients to requested files are notified soon; a restart of the server invalidates all responses.
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_is_told() {
    let Some(binary) = binary() else { return };
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let server = serve(&binary, folder.path(), port);
    let at = format!("esker://127.0.0.1:{port}");
    let esker = |words: &[&str]| {
        let (first, rest) = words.split_first().unwrap();
        let done = Command::new(&binary)
            .arg(first)
            .args(rest)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
    };
    esker(&["mkdir", "-p", &at, "/a/b"]);
    esker(&["touch", &at, "/a/b/x"]);
    esker(&["ln", "-s", &at, "/a/b", "/way"]);
    let pool = pool(port, HANG);
    let mut changes = pool.changes().unwrap();
    let mut told = async |expected: Notification| {
        let wait = async {
            loop {
                let got = changes.recv().await.unwrap();
                if got == expected {
                    return;
                }
            }
        };
        let waited = tokio::time::timeout(HANG, wait).await;
        assert!(waited.is_ok(), "{expected:?} was not told");
    };
    let changed = |path: &[u8]| Notification::Changed(path.into(), Attributes::of(Kind::Unknown));
    let request = async |path: &[u8]| pool.request(MetadataRequest::stat(path)).await.unwrap();
    assert!(matches!(request(b"/a/b/x").await, PathMetadata::Present(_)));
    assert!(pool.notifies(b"/a/b/x"));
    esker(&["chmod", &at, "600", "/a/b/x"]);
    told(changed(b"/a/b/x")).await;
    // An absent path is notified when it is created.
    assert_eq!(request(b"/a/b/c/d").await, PathMetadata::Absent);
    assert!(pool.notifies(b"/a/b/c/d"));
    esker(&["mkdir", &at, "/a/b/c"]);
    told(Notification::Missed(b"/a/b/c"[..].into())).await;
    // Tags are reported as attributes.
    esker(&["put", &at, "file:/a/b/x", "kept=1"]);
    told(changed(b"/a/b/x")).await;
    // Paths through a link have no notifications, and the server says so.
    assert!(matches!(request(b"/way/x").await, PathMetadata::Present(_)));
    assert!(!pool.notifies(b"/way/x"));
    assert!(matches!(
        pool.request(MetadataRequest::list(b"/a/b")).await.unwrap(),
        PathMetadata::Listing { .. }
    ));
    assert!(pool.notifies(b"/a/b"));
    esker(&["mv", &at, "/a", "/z"]);
    told(Notification::Deleted(b"/a"[..].into())).await;
    assert_eq!(request(b"/a/b/x").await, PathMetadata::Absent);
    signal(server.process.id(), "KILL");
    told(Notification::SourceLost).await;
    drop(server);
    let _server = serve(&binary, folder.path(), port);
    eventually_async(async || pool.request(MetadataRequest::stat(b"/z/b/x")).await).await;
    assert!(pool.notifies(b"/z/b/x"));
    esker(&["rm", &at, "/z/b/x"]);
    told(Notification::Deleted(b"/z/b/x"[..].into())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_esker_is_reported() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            use tokio::io::AsyncWriteExt as _;
            let _ = stream.write_all(b"220 ftp.example ready\r\n").await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let pool = pool(port, HANG);
    let error = pool.request(MetadataRequest::stat(b"/")).await.unwrap_err();
    assert!(
        matches!(error, Error::Unsupported { .. } | Error::Unreachable { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("Esker server"), "{error}");
}
