//! A real etcd on loopback, for tests of this crate and of its users.

use crate::etcd_program::program;
use esker_testkit::port::free_port;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// An etcd process, stopped by its process id.
pub(crate) struct Etcd {
    pub(crate) child: Child,
    pub(crate) url: String,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) ports: [u16; 2],
}

impl Etcd {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = [free_port(), free_port()];
        let child = Self::run(folder.path(), ports);
        let url = format!("http://127.0.0.1:{}", ports[0]);
        let etcd = Self {
            child,
            url,
            folder,
            ports,
        };
        etcd.wait();
        etcd
    }

    pub(crate) fn run(folder: &Path, [client, peer]: [u16; 2]) -> Child {
        let at = |port| format!("http://127.0.0.1:{port}");
        Command::new(program())
            .arg("--data-dir")
            .arg(folder)
            .args([
                "--listen-client-urls",
                &at(client),
                "--advertise-client-urls",
                &at(client),
            ])
            .args([
                "--listen-peer-urls",
                &at(peer),
                "--initial-advertise-peer-urls",
                &at(peer),
            ])
            .args(["--initial-cluster", &format!("default={}", at(peer))])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    pub(crate) fn wait(&self) {
        esker_testkit::wait::eventually(|| {
            std::net::TcpStream::connect(("127.0.0.1", self.ports[0]))
        });
    }

    pub(crate) fn stop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.stop();
    }
}
