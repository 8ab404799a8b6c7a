//! `WsgiDAV` on cheroot, and misbehaving servers.

use crate::battery::{Lacks, ODD, Site, Tree};
use crate::servers::{Running, always, free_port, patient, program, with_body};
use esker_origin::dav::Dav;
use esker_origin::session::Connect as _;
use esker_origin::{Error, MetadataRequest, OriginUrl, PathMetadata, Pool};
use esker_testkit::wait::{HANG, ends};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsAcceptor;

/// Starts a server, with a password for one user or open to all.
fn serve(root: &Path, scratch: &Path, login: bool) -> Running {
    let port = free_port();
    let users = if login {
        "{ann: {password: 'secret word'}}"
    } else {
        "true"
    };
    let config = format!(
        "host: 127.0.0.1\nport: {port}\nprovider_mapping:\n  /: {}\nsimple_dc:\n  user_mapping:\n    '*': {users}\n\
         http_authenticator:\n  accept_basic: true\n  accept_digest: false\n  default_to_digest: false\nverbose: 1\nlogging:\n  enable: false\n",
        root.display()
    );
    let file = scratch.join(format!("{port}.yaml"));
    fs::write(&file, config).unwrap();
    Running::start(
        Command::new(program("wsgidav")).arg("--config").arg(file),
        port,
    )
}

fn pool(port: u16, login: Option<(&str, &str)>) -> Pool {
    pool_within(port, login, HANG)
}

fn pool_within(port: u16, login: Option<(&str, &str)>, silence: Duration) -> Pool {
    let origin_url = OriginUrl::parse(&format!("dav://127.0.0.1:{port}/"))
        .unwrap()
        .0;
    let dav = Dav::new(origin_url, login, silence).unwrap();
    Pool::new(Arc::new(dav), patient())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wsgidav_answers_as_the_file_system_does() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = Tree::plain(&ODD);
    let server = serve(tree.root(), scratch.path(), false);
    let site = Site {
        pool: pool(server.port, None),
        root: tree.root().into(),
        prefix: Vec::new(),
        lacks: &[Lacks::Links, Lacks::Modes, Lacks::Nanoseconds],
    };
    site.all(5_000).await;
    let report = site.pool.report();
    assert!(
        report.about.contains("WebDAV classes: 1"),
        "{}",
        report.about
    );
    assert_eq!(report.failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_user_gets_advice() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = Tree::plain(&[]);
    let server = serve(tree.root(), scratch.path(), true);
    let request = async |login| {
        pool(server.port, login)
            .request(MetadataRequest::stat(b"/file"))
            .await
    };
    let found = request(Some(("ann", "secret word"))).await.unwrap();
    assert!(matches!(found, PathMetadata::Present(a) if a.size == Some(5)));
    for login in [None, Some(("ann", "wrong word"))] {
        let error = request(login).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        assert!(error.to_string().contains("~/.netrc"), "{error}");
        assert!(!error.to_string().contains("word wrong"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_is_not_waited_for() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = Tree::plain(&[]);
    let mut server = serve(tree.root(), scratch.path(), false);
    let pool = pool(server.port, None);
    pool.request(MetadataRequest::stat(b"/file")).await.unwrap();
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    // The error must not be a timeout.
    let error = ends(pool.request(MetadataRequest::stat(b"/file")))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_servers_are_found_out() {
    let bomb = "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>";
    let elsewhere = "<d:multistatus xmlns:d='DAV:'/>";
    let nest = "<a>".repeat(100_000);
    let long = format!("<!--{}", "x".repeat(9 << 20));
    // Too long for one path; as a listing it is read, but is not XML.
    let port = always(with_body("207 Multi-Status", &long)).await;
    for (request, said) in [
        (MetadataRequest::stat(b"/a"), "longer than 8 MiB"),
        (MetadataRequest::list(b"/a"), "not XML"),
    ] {
        let error = pool(port, None).request(request).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}, not {said}");
    }
    for (answer, said) in [
        (with_body("207 Multi-Status", "no XML"), "multistatus"),
        (with_body("207 Multi-Status", bomb), "type of its own"),
        (with_body("207 Multi-Status", &nest), "nested too deeply"),
        (
            with_body("207 Multi-Status", elsewhere),
            "describes no resource",
        ),
        (with_body("200 OK", "<html>Log in!</html>"), "login page"),
        (
            with_body("302 Found\r\nlocation: http://other/", ""),
            "use that address",
        ),
        (
            with_body("302 Found\r\nlocation: /again", ""),
            "redirections without end",
        ),
        (with_body("405 No", ""), "no WebDAV at this path"),
        (b"\x16\x03\x01garbage\r\n\r\n".to_vec(), "broke"),
        (
            b"HTTP/1.1 207 X\r\ncontent-length: 99999999999999\r\n\r\nx".to_vec(),
            "did not answer",
        ),
        (b"HTTP/1.1 207 X\r\n".to_vec(), "did not answer"),
        (Vec::new(), "did not answer"),
    ] {
        let port = always(answer).await;
        let silence = match said {
            "did not answer" => Duration::from_millis(1500),
            _ => HANG,
        };
        let pool = pool_within(port, None, silence);
        let error = ends(pool.request(MetadataRequest::list(b"/a")))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(said), "{error}, not {said}");
    }
}

/// A server with a certificate that reports the HTTP version of the request and the number of connections so far.
async fn with_tls(protocol: &'static [u8]) -> u16 {
    use http_body_util::Full;
    use hyper::body::Bytes;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use std::sync::atomic::{AtomicUsize, Ordering};

    let folder = std::path::absolute("../server/tests/it/tls/").unwrap();
    let certificates = CertificateDer::pem_file_iter(folder.join("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates.map(Result::unwrap).collect(), key)
        .unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (acceptor, count) = (acceptor.clone(), count.clone());
            tokio::spawn(async move {
                // A client that does not trust the certificate disconnects here.
                let Ok(stream) = acceptor.accept(socket).await else {
                    return;
                };
                count.fetch_add(1, Ordering::Relaxed);
                let answer = hyper::service::service_fn(move |request: http::Request<_>| {
                    let _: &hyper::body::Incoming = request.body();
                    let body = format!(
                        "<d:multistatus xmlns:d='DAV:'><d:response><d:href>{}</d:href><d:propstat><d:prop><d:resourcetype/>\
                         <d:getetag>{:?} {}</d:getetag></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>\
                         </d:multistatus>",
                        request.uri().path(),
                        request.version(),
                        count.load(Ordering::Relaxed)
                    );
                    let answer = http::Response::builder().status(207);
                    std::future::ready(answer.body(Full::new(Bytes::from(body))))
                });
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    port
}

/// The part of the test below that needs its own environment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "part of another test"]
#[expect(clippy::print_stdout, reason = "the other test reads it")]
async fn asks_over_tls() {
    let Ok(port) = std::env::var("ESKER_TEST_DAVS") else {
        return;
    };
    let origin_url = OriginUrl::parse(&format!("davs://localhost:{port}/"))
        .unwrap()
        .0;
    let dav = Dav::new(origin_url, None, HANG).unwrap();
    let session = match dav.connect().await {
        Ok(session) => session,
        Err(error) => return println!("<{error}>"),
    };
    let asked =
        (0..200).map(|n| session.request(MetadataRequest::stat(format!("/{n}").as_bytes())));
    let found = futures_util::future::join_all(asked).await;
    let Ok(PathMetadata::Present(last)) = found.last().unwrap() else {
        panic!("{found:?}")
    };
    println!("<{} {}>", last.more.as_ref().unwrap()[0].1, session.width());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_checked_and_http_2_is_one_connection() {
    for (protocol, trusted, wanted) in [
        (&b"h2"[..], "ca.pem", "<HTTP/2.0 1 64>"),
        (b"http/1.1", "ca.pem", "<HTTP/1.1 "),
        (b"h2", "other.pem", "UnknownIssuer"),
    ] {
        let port = with_tls(protocol).await;
        let trusted = std::path::absolute(format!("../server/tests/it/tls/{trusted}")).unwrap();
        let child = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture", "dav::asks_over_tls"])
            .env("SSL_CERT_FILE", trusted)
            .env("ESKER_TEST_DAVS", port.to_string())
            .output();
        let child = child.await.unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(
            child.status.success() && said.contains(wanted),
            "{said}, not {wanted}"
        );
    }
}
