//! A responder that Python's official client accepts too. No registry has a server of iRODS.

use crate::battery::{Lacks, NO_TEXT, ODD, Site, Tree};
use crate::servers::{Running, free_port, program};
use esker_origin::irods::{Irods, Login};
use esker_origin::{Error, Found, Place, Pool, Question, Settings};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn serve(root: &Path, scratch: &Path, version: &str, policy: &str, odd: &str) -> Running {
    let port = free_port();
    let mut command = Command::new(program("python"));
    command
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/it/irods_responder.py"
        ))
        .arg(port.to_string())
        .args([root, scratch])
        .args([version, policy, odd]);
    Running::start(&mut command, port)
}

fn pool(server: &Running, password: &str) -> Pool {
    let place = Place::parse(&format!("irods://127.0.0.1:{}/", server.port))
        .unwrap()
        .0;
    let login = Login {
        user: "ann".into(),
        zone: "lab".into(),
        password: password.into(),
    };
    let irods = Irods::new(place, login, Duration::from_secs(3));
    let settings = Settings {
        connections: 1,
        ..Settings::default()
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
        site.many(200).await;
        let before = fs::read_to_string(scratch.path().join("before")).unwrap();
        let before: usize = before.parse().unwrap();
        assert!(
            (32..=64).contains(&before),
            "{before} questions before the first answer"
        );
        site.all(2_000).await;
        site.lists(b"it's").await;
        site.lists(b"it_s").await;
        let root = site.pool.ask(Question::list(b"/")).await.unwrap();
        let Found::Listing { children, .. } = root else {
            panic!("{root:?}")
        };
        assert_eq!((&*children[0].name, children.len()), (&b"lab"[..], 1));
        let report = site.pool.report();
        assert_eq!(report.about, format!("iRODS rods{version}"));
        assert_eq!((report.again, report.failed), (0, 0));
    }
}

/// More than a server keeps queries open; and questions that are dropped leave none behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listings_leave_no_queries_behind() {
    let tree = Tree::plain(&[]);
    let scratch = tempfile::tempdir().unwrap();
    let server = serve(tree.root(), scratch.path(), "4.2.11", EITHER, "");
    let pool = pool(&server, WORD);
    for round in 0..3 {
        let asked = (0..40).map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.ask(Question::list(b"/lab/thousand")).await })
        });
        let asked: Vec<_> = asked.collect();
        if round == 1 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            asked.iter().for_each(tokio::task::JoinHandle::abort);
            continue;
        }
        for task in asked {
            let found = task.await.unwrap().unwrap();
            assert!(matches!(found, Found::Listing { children, .. } if children.len() == 1000));
        }
    }
    assert_eq!(pool.report().failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pythons_client_takes_the_responder_for_a_server() {
    let tree = Tree::plain(&[]);
    for version in ["4.2.11", "4.3.4"] {
        let scratch = tempfile::tempdir().unwrap();
        let server = serve(tree.root(), scratch.path(), version, EITHER, "");
        let client = Command::new(program("python"))
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/it/irods_client.py"
            ))
            .arg(server.port.to_string())
            .arg(tree.root())
            .output()
            .unwrap();
        assert!(
            client.status.success(),
            "{}",
            String::from_utf8_lossy(&client.stderr)
        );
        // The same password is wrong for both clients.
        let error = pool(&server, "wrong word")
            .ask(Question::stat(b"/lab"))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        assert!(
            error.to_string().contains("iinit") && !error.to_string().contains("word;"),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_spoken_is_said() {
    let tree = Tree::plain(&[]);
    let scratch = tempfile::tempdir().unwrap();
    for (policy, odd, said) in [
        ("CS_NEG_REQUIRE", "", "it wants TLS"),
        (EITHER, "garbage", "without a header of iRODS"),
        (EITHER, "silent", "no connection within"),
    ] {
        let server = serve(tree.root(), scratch.path(), "4.2.11", policy, odd);
        let place = Place::parse(&format!("irods://127.0.0.1:{}/", server.port))
            .unwrap()
            .0;
        let login = Login {
            user: "ann".into(),
            zone: "lab".into(),
            password: WORD.into(),
        };
        let settings = Settings {
            connect: Duration::from_secs(1),
            ..Settings::default()
        };
        let irods = Irods::new(place, login, Duration::from_secs(1));
        let pool = Pool::new(Arc::new(irods), settings);
        let began = Instant::now();
        let error = pool.ask(Question::stat(b"/lab")).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert!(began.elapsed() < Duration::from_secs(15));
    }
}
