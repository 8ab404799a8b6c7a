//! moto's S3, filled by Amazon's own client.

use crate::battery::{Lacks, ODD, Site, Tree};
use crate::servers::{Running, free_port, program};
use esker_origin::s3::{Config, S3};
use esker_origin::{Error, Found, Place, Pool, Question, Settings};
use esker_site_cache::entry::Kind;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn serve() -> Running {
    let port = free_port();
    let mut command = Command::new(program("moto_server"));
    Running::start(
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]),
        port,
    )
}

fn fill(server: &Running, bucket: &str, root: &Path) {
    let status = Command::new(program("python"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/s3_fill.py"))
        .args([&format!("http://127.0.0.1:{}", server.port), bucket])
        .arg(root)
        .status();
    assert!(status.unwrap().success());
}

fn pool(server: &Running, bucket: &str, keys: bool) -> Pool {
    let place = Place::parse(&format!("s3://{bucket}/")).unwrap().0;
    let config = Config {
        keys: keys.then(|| ("key".into(), "secret".into())),
        endpoint: Some(format!("http://127.0.0.1:{}", server.port).into()),
        ..Config::default()
    };
    let s3 = S3::new(place, config, Duration::from_secs(10)).unwrap();
    Pool::new(Arc::new(s3), Settings::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_answers_as_the_file_system_does() {
    // moto has no route for keys with line ends.
    let names: Vec<&[u8]> = ODD.into_iter().filter(|n| !n.contains(&b'\n')).collect();
    let tree = Tree::plain(&names);
    let server = serve();
    fill(&server, "lab", tree.root());
    // So that the listing of the root has them too.
    fs::create_dir_all(tree.root().join("both")).unwrap();
    fs::create_dir(tree.root().join("double")).unwrap();
    fs::write(tree.root().join("both/inner"), "x").unwrap();
    let site = Site {
        pool: pool(&server, "lab", true),
        root: tree.root().into(),
        prefix: Vec::new(),
        lacks: &[Lacks::Links, Lacks::Modes, Lacks::Times],
    };
    // Fewer questions than elsewhere: moto looks through all keys for each.
    site.all(500).await;
    site.lists(b"both").await;
    let Found::Present(both) = site.stat(b"both").await.unwrap() else {
        panic!("it is there")
    };
    assert_eq!(both.kind, Kind::Directory);
    // A name that no file system has is left out, and that is said.
    let found = site.list(b"double").await.unwrap();
    let Found::Listing {
        children, complete, ..
    } = found
    else {
        panic!("{found:?}")
    };
    assert!(children.is_empty() && !complete);
    let Found::Present(file) = site.stat(b"file").await.unwrap() else {
        panic!("it is there")
    };
    assert!(file.modified.is_some());
    assert_eq!(file.more.unwrap()[0].0, "etag".into());
    assert_eq!(site.stat(b"\xff").await.unwrap(), Found::Absent);
    assert_eq!(site.stat(&[b'x'; 2000]).await.unwrap(), Found::Absent);
    assert_eq!(site.pool.report().failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_not_there_is_absent() {
    let mut server = serve();
    for keys in [true, false] {
        let pool = pool(&server, "nothing", keys);
        assert_eq!(
            pool.ask(Question::stat(b"/x")).await.unwrap(),
            Found::Absent
        );
        assert_eq!(pool.ask(Question::list(b"/")).await.unwrap(), Found::Absent);
    }
    let pool = pool(&server, "nothing", true);
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    let began = Instant::now();
    let error = pool.ask(Question::stat(b"/x")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(15));
    assert!(!error.to_string().contains("X-Amz"), "{error}");
}
