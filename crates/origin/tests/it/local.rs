//! Folders of this machine, and their change notifications.

use crate::battery::{NO_TEXT, ODD, Site, Tree};
use crate::servers::patient;
use esker_origin::local::Local;
use esker_origin::session::Connect as _;
use esker_origin::{Error, MetadataRequest, Notification, OriginUrl, PathMetadata, Pool, Settings};
use esker_testkit::wait::HANG;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

fn local() -> Local {
    Local::new(OriginUrl::parse("file:///").unwrap().0)
}

fn bytes(path: &Path) -> Vec<u8> {
    path.to_str().unwrap().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_are_as_they_are() {
    let names: Vec<&[u8]> = ODD.iter().chain(&NO_TEXT).copied().collect();
    let tree = Tree::new(&names);
    let settings = Settings {
        in_flight: 256,
        connections: 1,
        ..patient()
    };
    let site = Site {
        pool: Pool::new(Arc::new(local()), settings),
        root: tree.root().into(),
        prefix: bytes(tree.root()),
        lacks: &[],
    };
    site.all(5_000).await;
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        let error = site.list(b"secret").await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
    }
    let error = site.stat(&[b'x'; 300]).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
}

/// Waits for a notification about a path; skips those about other paths.
async fn notification(
    changes: &mut Receiver<Notification>,
    path: &[u8],
    wanted: impl Fn(&Notification) -> bool,
) -> Notification {
    let found = timeout(HANG, async {
        loop {
            let received = changes.recv().await.unwrap();
            let (Notification::Changed(of, _)
            | Notification::Deleted(of)
            | Notification::Missed(of)) = &received
            else {
                continue;
            };
            if **of == *path && wanted(&received) {
                return received;
            }
        }
    });
    let printable = String::from_utf8_lossy(path);
    found
        .await
        .unwrap_or_else(|_| panic!("no notification of {printable} was received"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let path = |name: &str| bytes(&at(name));
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/file"), "x").unwrap();
    let local = local();
    let mut changes = local.changes().unwrap();
    let session = local.connect().await.unwrap();
    session
        .request(MetadataRequest::stat(&path("a/file")))
        .await
        .unwrap();
    session
        .request(MetadataRequest::list(&path("a/b")))
        .await
        .unwrap();
    let nothing = session
        .request(MetadataRequest::stat(&path("a/later/x")))
        .await
        .unwrap();
    assert_eq!(nothing, PathMetadata::Absent);

    fs::write(at("a/file"), "four").unwrap();
    notification(
        &mut changes,
        &path("a/file"),
        |t| matches!(t, Notification::Changed(_, a) if a.size == Some(4)),
    )
    .await;
    fs::write(at("a/b/new"), "").unwrap();
    notification(&mut changes, &path("a/b/new"), |t| {
        matches!(t, Notification::Changed(..))
    })
    .await;
    fs::remove_file(at("a/b/new")).unwrap();
    notification(&mut changes, &path("a/b/new"), |t| {
        matches!(t, Notification::Deleted(_))
    })
    .await;
    // Below a directory that did not exist when it was requested.
    fs::create_dir(at("a/later")).unwrap();
    notification(&mut changes, &path("a/later"), |t| {
        matches!(t, Notification::Missed(_))
    })
    .await;
    // An ancestor of a requested path is renamed.
    fs::rename(at("a"), at("z")).unwrap();
    notification(&mut changes, &path("a"), |t| {
        matches!(t, Notification::Deleted(_))
    })
    .await;
    // Changes below the new name are not reported under the old one.
    fs::write(at("z/b/new"), "").unwrap();
    fs::write(at("z/file"), "").unwrap();
    fs::create_dir_all(at("a/b")).unwrap();
    notification(&mut changes, &path("a"), |t| {
        matches!(t, Notification::Missed(_))
    })
    .await;
    let found = session
        .request(MetadataRequest::list(&path("a/b")))
        .await
        .unwrap();
    assert!(matches!(found, PathMetadata::Listing { children, .. } if children.is_empty()));
    fs::write(at("a/b/again"), "").unwrap();
    let received = notification(&mut changes, &path("a/b/again"), |_| true).await;
    assert!(
        matches!(received, Notification::Changed(..)),
        "{received:?}"
    );
}

/// Requests per second: `cargo test -p esker-origin --test it -- --ignored --nocapture local::speed`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
#[expect(clippy::print_stderr, reason = "what it is for")]
async fn speed() {
    let tree = Tree::new(&[]);
    for watched in [false, true] {
        let local = local();
        let changes = watched.then(|| local.changes().unwrap());
        let session = local.connect().await.unwrap();
        let began = std::time::Instant::now();
        let count = 50_000;
        for part in 0..count / 250 {
            let asked = (0..250).map(|n| {
                let name = format!("thousand/n{:04}", (part * 250 + n) % 1000);
                session.request(MetadataRequest::stat(&bytes(&tree.root().join(name))))
            });
            let found = futures_util::future::join_all(asked).await;
            assert!(found.iter().all(Result::is_ok));
        }
        let rate = f64::from(count) / began.elapsed().as_secs_f64();
        eprintln!("watched: {watched}: {rate:.0} stats/s");
        drop(changes);
    }
}
