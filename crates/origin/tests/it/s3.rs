//! moto's S3, filled by Amazon's own client.

use crate::battery::{Lacks, ODD, Site, Tree};
use crate::servers::{Running, always, free_port, patient, program, with_body};
use esker_origin::s3::{Config, S3};
use esker_origin::{Error, MetadataRequest, OriginUrl, PathMetadata, Pool};
use esker_site_cache::entry::Kind;
use esker_testkit::wait::{HANG, ends};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

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
        .arg(std::path::absolute("tests/it/s3_fill.py").unwrap())
        .args([&format!("http://127.0.0.1:{}", server.port), bucket])
        .arg(root)
        .status();
    assert!(status.unwrap().success());
}

fn pool(server: &Running, bucket: &str, keys: bool) -> Pool {
    pool_at(server.port, bucket, keys)
}

fn pool_at(port: u16, bucket: &str, keys: bool) -> Pool {
    pool_within(port, bucket, keys, HANG)
}

fn pool_within(port: u16, bucket: &str, keys: bool, silence: Duration) -> Pool {
    let origin_url = OriginUrl::parse(&format!("s3://{bucket}/")).unwrap().0;
    let config = Config {
        keys: keys.then(|| ("key".into(), "secret".into())),
        endpoint: Some(format!("http://127.0.0.1:{port}").into()),
        ..Config::default()
    };
    let s3 = S3::new(origin_url, config, silence).unwrap();
    Pool::new(Arc::new(s3), patient())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_answers_as_the_file_system_does() {
    // moto has no route for keys with line breaks.
    let names: Vec<&[u8]> = ODD.into_iter().filter(|n| !n.contains(&b'\n')).collect();
    let tree = Tree::plain(&names);
    let server = serve();
    fill(&server, "lab", tree.root());
    // The listing of the root includes them too.
    fs::create_dir_all(tree.root().join("both")).unwrap();
    fs::create_dir(tree.root().join("double")).unwrap();
    fs::write(tree.root().join("both/inner"), "x").unwrap();
    let site = Site {
        pool: pool(&server, "lab", true),
        root: tree.root().into(),
        prefix: Vec::new(),
        lacks: &[Lacks::Links, Lacks::Modes, Lacks::Times],
    };
    // Fewer requests than elsewhere: moto scans all keys for each.
    site.all(500).await;
    site.lists(b"both").await;
    let PathMetadata::Present(both) = site.stat(b"both").await.unwrap() else {
        panic!("it is there")
    };
    assert_eq!(both.kind, Kind::Directory);
    // A name that is invalid in file systems is dropped, and the listing is incomplete.
    let found = site.list(b"double").await.unwrap();
    let PathMetadata::Listing {
        children, complete, ..
    } = found
    else {
        panic!("{found:?}")
    };
    assert!(children.is_empty() && !complete);
    let PathMetadata::Present(file) = site.stat(b"file").await.unwrap() else {
        panic!("it is there")
    };
    assert!(file.modified.is_some());
    assert_eq!(file.more.unwrap()[0].0, "etag".into());
    assert_eq!(site.stat(b"\xff").await.unwrap(), PathMetadata::Absent);
    assert_eq!(
        site.stat(&[b'x'; 2000]).await.unwrap(),
        PathMetadata::Absent
    );
    assert_eq!(site.pool.report().failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_not_there_is_absent() {
    let mut server = serve();
    for keys in [true, false] {
        let pool = pool(&server, "nothing", keys);
        assert_eq!(
            pool.request(MetadataRequest::stat(b"/x")).await.unwrap(),
            PathMetadata::Absent
        );
        assert_eq!(
            pool.request(MetadataRequest::list(b"/")).await.unwrap(),
            PathMetadata::Absent
        );
    }
    let pool = pool(&server, "nothing", true);
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    let error = ends(pool.request(MetadataRequest::stat(b"/x")))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("X-Amz"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_servers_are_found_out() {
    let page = "<ListBucketResult><Contents><Key>a</Key></Contents><IsTruncated>true</IsTruncated>";
    let stuck =
        format!("{page}<NextContinuationToken>x</NextContinuationToken></ListBucketResult>");
    let lost = format!("{page}</ListBucketResult>");
    let denied = "<Error><Code>AccessDenied</Code><Message>No\x1b[31m!</Message></Error>";
    let slow = "<Error><Code>SlowDown</Code><Message>later</Message></Error>";
    for (answer, keys, said) in [
        (
            with_body("200 OK", "no XML"),
            true,
            "something other than a listing",
        ),
        (with_body("200 OK", &stuck), true, "without end"),
        (with_body("200 OK", &lost), true, "does not say how"),
        (
            with_body("403 No", denied),
            true,
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE",
        ),
        (with_body("403 No", denied), false, "no keys were found"),
        (
            with_body("503 Later", slow),
            true,
            "is busy: SlowDown: later",
        ),
        (b"garbage\r\n\r\n".to_vec(), true, "broke"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_vec(),
            true,
            "did not answer",
        ),
    ] {
        let port = always(answer).await;
        let silence = match said {
            "did not answer" => Duration::from_secs(5),
            _ => HANG,
        };
        let pool = pool_within(port, "lab", keys, silence);
        let error = ends(pool.request(MetadataRequest::list(b"/")))
            .await
            .unwrap_err();
        let error = error.to_string();
        assert!(error.contains(said), "{error}, not {said}");
        assert!(
            !error.chars().any(char::is_control) && !error.contains("X-Amz"),
            "{error}"
        );
    }
}

/// moto accepts any signature; this server accepts only the signature that Amazon's library computes for the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signatures_are_what_amazon_makes_them() {
    let port = free_port();
    let script = std::path::absolute("tests/it/s3_verify.py").unwrap();
    let mut command = Command::new(program("python"));
    let _server = Running::start(command.arg(script).arg(port.to_string()), port);
    for (secret, right) in [("secret", true), ("guess", false)] {
        let config = Config {
            keys: Some(("key".into(), secret.into())),
            token: Some("token".into()),
            region: Some("eu-west-1".into()),
            endpoint: Some(format!("http://127.0.0.1:{port}/").into()),
        };
        let origin_url = OriginUrl::parse("s3://lab/").unwrap().0;
        let s3 = S3::new(origin_url, config, HANG).unwrap();
        let pool = Pool::new(Arc::new(s3), patient());
        for path in ["/", "/a/b", "/a b+c*~/\u{e9}'()!", "/x&y=z?#%41/\n"] {
            let asked = pool.request(MetadataRequest::stat(path.as_bytes())).await;
            let listed = pool.request(MetadataRequest::list(path.as_bytes())).await;
            if right {
                assert!(
                    matches!(asked, Ok(PathMetadata::Present(_))),
                    "{path}: {asked:?}"
                );
                assert!(listed.is_ok(), "{path}: {listed:?}");
            } else {
                assert!(
                    matches!(asked, Err(Error::Denied { .. })),
                    "{path}: {asked:?}"
                );
                assert!(
                    listed
                        .unwrap_err()
                        .to_string()
                        .contains("SignatureDoesNotMatch")
                );
            }
        }
    }
}
