//! Another Esker, as a process: the command that the build of the workspace made.

use crate::battery::{NO_TEXT, ODD, Site, Tree, chmod};
use crate::servers::{Running, free_port, patient};
use esker_origin::esker::Esker;
use esker_origin::{Error, Found, Place, Pool, Question, Settings, Told};
use esker_site_cache::entry::{Attributes, Kind};
use esker_testkit::wait::{HANG, ends, eventually_async};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// The binary, or word that the test is passed over.
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

fn signal(server: &Running, name: &str) {
    let id = server.process.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &id]).status();
    assert!(sent.unwrap().success());
}

fn pool(port: u16, patience: Duration) -> Pool {
    let (place, _) = Place::parse(&format!("esker://127.0.0.1:{port}/")).unwrap();
    let settings = Settings {
        patience,
        connections: 1,
        ..patient()
    };
    let esker = Esker::new(place, patience * 2 / 3).unwrap();
    Pool::new(Arc::new(esker), settings)
}

/// Takes the tree into the namespace, at its own path.
fn take_in(binary: &Path, folder: &Path, port: u16, tree: &Tree) {
    let taken = Command::new(binary)
        .args(["scan", &format!("esker://127.0.0.1:{port}")])
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
    assert_eq!((report.connections, report.again, report.failed), (1, 0, 0));
    assert!(report.about.starts_with("Esker "), "{}", report.about);
    // No name can be so long.
    let long = site.stat(&[b'x'; 300]).await.unwrap();
    assert_eq!(long, Found::Absent);
    // Many long listings at once share one connection.
    let listings = (0..40).map(|_| site.list(b"thousand"));
    for listed in futures_util::future::join_all(listings).await {
        let Found::Listing { children, .. } = listed.unwrap() else {
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
    let root = Question::list(b"/");
    let there = async || {
        let found = eventually_async(async || pool.ask(root.clone()).await).await;
        assert!(matches!(found, Found::Listing { complete: true, .. }));
    };
    there().await;
    signal(&server, "STOP");
    let error = ends(pool.ask(root.clone())).await.unwrap_err();
    assert!(error.is_passing(), "{error}");
    signal(&server, "CONT");
    there().await;
    // It dies with questions open.
    let asked: Vec<_> = (0..50)
        .map(|_| {
            let (pool, root) = (pool.clone(), root.clone());
            tokio::spawn(async move { pool.ask(root).await })
        })
        .collect();
    signal(&server, "KILL");
    drop(server);
    for answer in asked {
        if let Err(error) = answer.await.unwrap() {
            assert!(error.is_passing(), "{error}");
        }
    }
    assert!(pool.ask(root.clone()).await.is_err());
    let _server = serve(&binary, folder.path(), port);
    there().await;
}

/// What others do to files that were asked about is told, soon; a restart of the server puts all in doubt.
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
    let mut told = async |expected: Told| {
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
    let changed = |path: &[u8]| Told::Changed(path.into(), Attributes::of(Kind::Unknown));
    let ask = async |path: &[u8]| pool.ask(Question::stat(path)).await.unwrap();
    assert!(matches!(ask(b"/a/b/x").await, Found::Present(_)));
    assert!(pool.tells(b"/a/b/x"));
    esker(&["chmod", &at, "600", "/a/b/x"]);
    told(changed(b"/a/b/x")).await;
    // What is not there is told of when it comes.
    assert_eq!(ask(b"/a/b/c/d").await, Found::Absent);
    assert!(pool.tells(b"/a/b/c/d"));
    esker(&["mkdir", &at, "/a/b/c"]);
    told(Told::Missed(b"/a/b/c"[..].into())).await;
    // Tags are attributes.
    esker(&["put", &at, "file:/a/b/x", "kept=1"]);
    told(changed(b"/a/b/x")).await;
    // Through a link nothing is told, and that is said.
    assert!(matches!(ask(b"/way/x").await, Found::Present(_)));
    assert!(!pool.tells(b"/way/x"));
    assert!(matches!(
        pool.ask(Question::list(b"/a/b")).await.unwrap(),
        Found::Listing { .. }
    ));
    assert!(pool.tells(b"/a/b"));
    esker(&["mv", &at, "/a", "/z"]);
    told(Told::Deleted(b"/a"[..].into())).await;
    assert_eq!(ask(b"/a/b/x").await, Found::Absent);
    signal(&server, "KILL");
    told(Told::Cut).await;
    drop(server);
    let _server = serve(&binary, folder.path(), port);
    eventually_async(async || pool.ask(Question::stat(b"/z/b/x")).await).await;
    assert!(pool.tells(b"/z/b/x"));
    esker(&["rm", &at, "/z/b/x"]);
    told(Told::Deleted(b"/z/b/x"[..].into())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_no_esker_is_said_to_be_none() {
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
    let error = pool.ask(Question::stat(b"/")).await.unwrap_err();
    assert!(
        matches!(error, Error::Unsupported { .. } | Error::Unreachable { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("Esker server"), "{error}");
}
