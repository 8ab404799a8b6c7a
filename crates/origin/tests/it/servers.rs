//! Starting and stopping servers.

use esker_origin::Settings;
use esker_testkit::wait::{HANG, eventually};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Settings with timeouts that no slow machine can reach.
pub(crate) fn patient() -> Settings {
    Settings {
        patience: HANG,
        connect: HANG,
        ..Settings::default()
    }
}

/// Returns a port that is currently free.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

pub(crate) fn wait_for(port: u16) {
    eventually(|| TcpStream::connect(("127.0.0.1", port)));
}

/// Path of a program in the virtual environment of `tests/fetch-servers.sh`.
pub(crate) fn program(name: &str) -> PathBuf {
    let here = std::path::absolute(".").unwrap();
    let folder = std::env::var_os("ESKER_ORIGIN_SERVERS_DIR")
        .map_or_else(|| here.join("../../target/origin-servers"), PathBuf::from);
    let path = folder.join("venv/bin").join(name);
    assert!(
        path.exists(),
        "{} is not there: run crates/origin/tests/fetch-servers.sh (needs python3 and PyPI), or set ESKER_ORIGIN_SERVERS_DIR",
        path.display()
    );
    path
}

/// A running server, stopped on drop.
pub(crate) struct Running {
    pub(crate) process: Child,
    pub(crate) port: u16,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The test may have stopped it already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Running {
    /// Starts a server and waits until its port is open.
    pub(crate) fn start(command: &mut Command, port: u16) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let running = Self { process, port };
        wait_for(port);
        running
    }
}

/// A server that answers every request with the same bytes, then stays silent.
pub(crate) async fn always(answer: Vec<u8>) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while let Ok(count @ 1..) = socket.read(&mut request).await {
                    let answer: &[u8] =
                        if request.starts_with(b"OPTIONS") || request.starts_with(b"HEAD") {
                            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
                        } else if request[..count].starts_with(b"<?xml") {
                            b""
                        } else {
                            &answer
                        };
                    if socket.write_all(answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// An HTTP response with a body and its length.
pub(crate) fn with_body(head: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}
