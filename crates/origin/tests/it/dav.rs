//! `WsgiDAV` on cheroot, and servers that answer what they should not.

use crate::battery::{Lacks, ODD, Site, Tree};
use crate::servers::{Running, free_port, program};
use esker_origin::dav::Dav;
use esker_origin::{Error, Found, Place, Pool, Question, Settings};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// With a password for one user, or open to all.
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
    let place = Place::parse(&format!("dav://127.0.0.1:{port}/")).unwrap().0;
    let dav = Dav::new(place, login, Duration::from_millis(1500)).unwrap();
    Pool::new(Arc::new(dav), Settings::default())
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
async fn who_is_not_let_in_is_told_what_to_do() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = Tree::plain(&[]);
    let server = serve(tree.root(), scratch.path(), true);
    let ask = async |login| pool(server.port, login).ask(Question::stat(b"/file")).await;
    let found = ask(Some(("ann", "secret word"))).await.unwrap();
    assert!(matches!(found, Found::Present(a) if a.size == Some(5)));
    for login in [None, Some(("ann", "wrong word"))] {
        let error = ask(login).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        assert!(error.to_string().contains("~/.netrc"), "{error}");
        assert!(!error.to_string().contains("word wrong"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_is_said_in_bounded_time() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = Tree::plain(&[]);
    let mut server = serve(tree.root(), scratch.path(), false);
    let pool = pool(server.port, None);
    pool.ask(Question::stat(b"/file")).await.unwrap();
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    let began = Instant::now();
    let error = pool.ask(Question::stat(b"/file")).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(15));
}

/// A server that answers everything with the same bytes, and then is silent, or hangs up.
async fn always(answer: Vec<u8>, hangs_up: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while let Ok(count @ 1..) = socket.read(&mut request).await {
                    let answer: &[u8] = if request.starts_with(b"OPTIONS") {
                        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
                    } else if request[..count].starts_with(b"<?xml") {
                        b""
                    } else {
                        &answer
                    };
                    if socket.write_all(answer).await.is_err() || (hangs_up && answer.is_empty()) {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn with_body(head: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_servers_are_found_out() {
    let bomb = "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>";
    let elsewhere = "<d:multistatus xmlns:d='DAV:'/>";
    let nest = "<a>".repeat(100_000);
    for (answer, said) in [
        (with_body("207 Multi-Status", "no XML"), "multistatus"),
        (with_body("207 Multi-Status", bomb), "type of its own"),
        (with_body("207 Multi-Status", &nest), "elements in elements"),
        (with_body("207 Multi-Status", elsewhere), "about nothing"),
        (
            with_body("200 OK", "<html>Log in!</html>"),
            "page to log in",
        ),
        (
            with_body("302 Found\r\nlocation: http://other/", ""),
            "ask there",
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
        let port = always(answer, false).await;
        let began = Instant::now();
        let error = pool(port, None)
            .ask(Question::list(b"/a"))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(said), "{error}, not {said}");
        assert!(began.elapsed() < Duration::from_secs(15), "{said}");
    }
}
