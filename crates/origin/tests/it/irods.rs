//! A responder that Python's official client accepts too; no package registry offers an iRODS server.

use crate::battery::{Lacks, NO_TEXT, ODD, Site, Tree};
use crate::servers::{Running, free_port, patient, program};
use esker_origin::irods::{Irods, IrodsLogin};
use esker_origin::{Error, MetadataRequest, OriginUrl, PathMetadata, Pool, Settings};
use esker_testkit::wait::{HANG, ends, eventually_async};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

fn serve(root: &Path, scratch: &Path, version: &str, policy: &str, odd: &str) -> Running {
    serve_at(free_port(), root, scratch, version, policy, odd)
}

fn serve_at(
    port: u16,
    root: &Path,
    scratch: &Path,
    version: &str,
    policy: &str,
    odd: &str,
) -> Running {
    let mut command = Command::new(program("python"));
    command
        .arg(std::path::absolute("tests/it/irods_responder.py").unwrap())
        .arg(port.to_string())
        .args([root, scratch])
        .args([version, policy, odd]);
    Running::start(&mut command, port)
}

fn certificates() -> String {
    let folder = std::path::absolute("../server/tests/it/tls").unwrap();
    folder.display().to_string()
}

fn pool(server: &Running, password: &str) -> Pool {
    pool_with(server, password, |irods| irods)
}

fn pool_with(server: &Running, password: &str, with: impl Fn(Irods) -> Irods) -> Pool {
    let origin_url = OriginUrl::parse(&format!("irods://127.0.0.1:{}/", server.port))
        .unwrap()
        .0;
    let login = IrodsLogin {
        user: "ann".into(),
        zone: "lab".into(),
        password: password.into(),
    };
    let irods = with(Irods::new(origin_url, login, HANG));
    let settings = Settings {
        connections: 1,
        ..patient()
    };
    Pool::new(Arc::new(irods), settings)
}

const EITHER: &str = "CS_NEG_DONT_CARE";
const WORD: &str = "secret word";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_answers_as_the_file_system_does() {
    let names: Vec<&[u8]> = ODD.iter().chain(&NO_TEXT).copied().collect();
    let tree = Tree::plain(&names);
    fs::create_dir(tree.root().join("it's")).unwrap();
    fs::create_dir(tree.root().join("it_s")).unwrap();
    fs::write(tree.root().join("it's/inner"), "x").unwrap();
    for version in ["4.2.11", "4.3.4"] {
        let scratch = tempfile::tempdir().unwrap();
        let server = serve(tree.root(), scratch.path(), version, EITHER, "");
        let site = Site {
            pool: pool(&server, WORD),
            root: tree.root().into(),
            prefix: b"/lab".into(),
            lacks: &[Lacks::Links, Lacks::Modes, Lacks::Nanoseconds],
        };
        delay_replies(scratch.path(), 32);
        site.many(200).await;
        let before = before(scratch.path());
        assert!(
            (32..=64).contains(&before),
            "{before} questions before the first answer"
        );
        site.all(2_000).await;
        site.lists(b"it's").await;
        site.lists(b"it_s").await;
        let root = site
            .pool
            .request(MetadataRequest::list(b"/"))
            .await
            .unwrap();
        let PathMetadata::Listing { children, .. } = root else {
            panic!("{root:?}")
        };
        assert_eq!((&*children[0].name, children.len()), (&b"lab"[..], 1));
        let report = site.pool.report();
        assert_eq!(report.about, format!("iRODS rods{version}"));
        assert_eq!((report.retries, report.failed), (0, 0));
    }
}

/// Makes the responder hold its first reply until it has received this many requests.
fn delay_replies(scratch: &Path, questions: usize) {
    fs::write(scratch.join("hold"), questions.to_string()).unwrap();
}

/// Number of requests received before the first reply, or so far.
fn before(scratch: &Path) -> usize {
    let before = fs::read_to_string(scratch.join("before")).unwrap_or_default();
    before.parse().unwrap_or(0)
}

/// More listings than a server allows open queries; cancelled requests leave no queries open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listings_leave_no_queries_behind() {
    let tree = Tree::plain(&[]);
    let scratch = tempfile::tempdir().unwrap();
    let server = serve(tree.root(), scratch.path(), "4.2.11", EITHER, "");
    let pool = pool(&server, WORD);
    for round in 0..3 {
        let asked = (0..40).map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.request(MetadataRequest::list(b"/lab/thousand")).await })
        });
        let asked: Vec<_> = asked.collect();
        if round == 1 {
            // At any stage of the requests.
            tokio::time::sleep(Duration::from_millis(100)).await;
            asked.iter().for_each(tokio::task::JoinHandle::abort);
            continue;
        }
        for task in asked {
            let found = task.await.unwrap().unwrap();
            assert!(
                matches!(found, PathMetadata::Listing { children, .. } if children.len() == 1000)
            );
        }
    }
    assert_eq!(pool.report().failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pythons_client_takes_the_responder_for_a_server() {
    let tree = Tree::plain(&[]);
    let tls = format!("tls:{}", certificates());
    let trusted = format!("{}/ca.pem", certificates());
    for (version, policy, odd, trusted) in [
        ("4.2.11", EITHER, "", ""),
        ("4.3.4", EITHER, "", ""),
        ("4.3.4", "CS_NEG_REQUIRE", &*tls, &*trusted),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let server = serve(tree.root(), scratch.path(), version, policy, odd);
        let client = Command::new(program("python"))
            .arg(std::path::absolute("tests/it/irods_client.py").unwrap())
            .arg(server.port.to_string())
            .arg(tree.root())
            .arg(trusted)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&client.stderr);
        assert!(client.status.success(), "{told}");
        // Both clients accept and reject the same passwords and certificates.
        let trusting = |irods: Irods| match trusted {
            "" => irods,
            file => irods.with_tls(Some(file.into())),
        };
        let known = pool_with(&server, WORD, trusting);
        let found = known
            .request(MetadataRequest::list(b"/lab/thousand"))
            .await
            .unwrap();
        assert!(matches!(found, PathMetadata::Listing { children, .. } if children.len() == 1000));
        let stranger = pool_with(&server, "wrong word", trusting);
        let error = stranger
            .request(MetadataRequest::stat(b"/lab"))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        let error = error.to_string();
        assert!(
            error.contains("iinit") && !error.contains("wrong word"),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_checked() {
    let tree = Tree::plain(&[]);
    let scratch = tempfile::tempdir().unwrap();
    let tls = format!("tls:{}", certificates());
    let server = serve(
        tree.root(),
        scratch.path(),
        "4.2.11",
        "CS_NEG_REQUIRE",
        &tls,
    );
    // TLS required by the server: neither the system's certificates nor another authority's trust it.
    let other = format!("{}/other.pem", certificates());
    for pool in [
        pool(&server, WORD),
        pool_with(&server, WORD, |i| i.with_tls(Some(other.clone().into()))),
    ] {
        let error = pool
            .request(MetadataRequest::stat(b"/lab"))
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("irods_ssl_ca_certificate_file"),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_spoken_is_said() {
    let tree = Tree::plain(&[]);
    let scratch = tempfile::tempdir().unwrap();
    for (policy, odd, said) in [
        ("CS_NEG_REFUSE", "secure", "does not support TLS"),
        (EITHER, "garbage", "without a header of iRODS"),
        (EITHER, "silent", "no connection within"),
    ] {
        let server = serve(tree.root(), scratch.path(), "4.2.11", policy, odd);
        let origin_url = OriginUrl::parse(&format!("irods://127.0.0.1:{}/", server.port))
            .unwrap()
            .0;
        let login = IrodsLogin {
            user: "ann".into(),
            zone: "lab".into(),
            password: WORD.into(),
        };
        let mut settings = patient();
        if odd == "silent" {
            settings.connect = Duration::from_secs(1);
        }
        let mut irods = Irods::new(origin_url, login, HANG);
        if odd == "secure" {
            irods = irods.with_tls(None);
        }
        let pool = Pool::new(Arc::new(irods), settings);
        let error = ends(pool.request(MetadataRequest::stat(b"/lab")))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_and_comes_back_is_asked_again() {
    let tree = Tree::plain(&[]);
    let scratch = tempfile::tempdir().unwrap();
    let mut server = serve(tree.root(), scratch.path(), "4.2.11", EITHER, "");
    let (pool, port) = (pool(&server, WORD), server.port);
    // The responder sends no reply: all requests are open when it dies.
    delay_replies(scratch.path(), usize::MAX);
    let asked = (0..40).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move { pool.request(MetadataRequest::stat(b"/lab/file")).await })
    });
    let asked: Vec<_> = asked.collect();
    eventually_async(async || {
        let before = before(scratch.path());
        (before == 40).then_some(()).ok_or(before)
    })
    .await;
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    fs::remove_file(scratch.path().join("hold")).unwrap();
    for task in asked {
        let error = ends(task).await.unwrap().unwrap_err();
        assert!(
            matches!(error, Error::Unreachable { .. } | Error::Broken { .. }),
            "{error}"
        );
    }
    let _server = serve_at(port, tree.root(), scratch.path(), "4.2.11", EITHER, "");
    let found =
        eventually_async(async || pool.request(MetadataRequest::stat(b"/lab/file")).await).await;
    assert!(matches!(found, PathMetadata::Present(_)), "{found:?}");
}
