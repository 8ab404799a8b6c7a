//! A pool of members that real etcd keeps.

use crate::tiers::tier;
use esker_origin::Found;
use esker_site::serve::Standing;
use esker_site::{Asked, Client};
use esker_site_cache::entry::Wants;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An etcd of its own, stopped by its process id.
struct Etcd {
    child: Child,
    url: String,
    folder: tempfile::TempDir,
    ports: [u16; 2],
}

fn program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::var_os("ESKER_FTP_SERVERS_DIR")
        .map_or_else(|| root.join("target/ftp-servers"), PathBuf::from);
    let etcd = folder.join("etcd-server/usr/bin/etcd");
    if !etcd.exists() {
        let fetch = root.join("crates/origin/tests/fetch-ftp-servers.sh");
        assert!(Command::new(fetch).status().unwrap().success());
    }
    etcd
}

fn free() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Etcd {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = [free(), free()];
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

    fn run(folder: &Path, [client, peer]: [u16; 2]) -> Child {
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

    fn wait(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        while std::net::TcpStream::connect(("127.0.0.1", self.ports[0])).is_err() {
            assert!(Instant::now() < until, "etcd does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn stop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn member(etcd: &Etcd) -> Arc<Standing> {
    tier(&[], |c| {
        c.services = Some(2);
        c.etcd = vec![etcd.url.clone()];
        c.pool = Some("lab".into());
    })
    .await
}

fn linked(edge: &Standing) -> usize {
    let status = edge.node.above().status();
    let parents = status["parents"].as_array().unwrap();
    parents.iter().filter(|p| p["linked"] == true).count()
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go() {
    let mut etcd = Etcd::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    std::fs::write(&file, "x").unwrap();
    let first = member(&etcd).await;
    let edge = tier(&[], |c| {
        c.etcd = vec![etcd.url.clone()];
        c.pool = Some("lab".into());
        c.rules.settings.patience = Duration::from_secs(20);
    })
    .await;
    let client = Client::connect(&edge.url, "test").await.unwrap();
    let ask = || async {
        let path = file.to_str().unwrap().as_bytes();
        let asked = Asked {
            max_age: Some(Duration::ZERO),
            ..Asked::new("file://", path, Wants::Stat)
        };
        let given = client.ask(asked).await.unwrap();
        assert!(matches!(given.found, Found::Present(_)));
    };
    // The first question may come before the pool is known: it waits.
    ask().await;
    assert_eq!(linked(&edge), 1);
    let second = member(&etcd).await;
    until("the second member is found", || linked(&edge) == 2).await;
    first.stop().await;
    ask().await;
    until("the first member is taken out", || {
        edge.node.above().status()["parents"]
            .as_array()
            .unwrap()
            .len()
            == 1
    })
    .await;
    // Without etcd whoever was known last is asked on.
    etcd.stop();
    ask().await;
    // And it comes back, with what it knew; the member puts itself in again if its lease has ended meanwhile.
    etcd.child = Etcd::run(etcd.folder.path(), etcd.ports);
    etcd.wait();
    let third = member(&etcd).await;
    until("the third member is found", || linked(&edge) == 2).await;
    second.stop().await;
    ask().await;
    third.stop().await;
}
