//! Starting servers, and stopping them.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

pub(crate) fn wait_for(port: u16) {
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "no server");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A program of the virtual environment that `tests/fetch-servers.sh` makes.
pub(crate) fn program(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
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

/// A server, stopped with this.
pub(crate) struct Running {
    pub(crate) process: Child,
    pub(crate) port: u16,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have been stopped by the test.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Running {
    /// Waits until the port is open.
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
