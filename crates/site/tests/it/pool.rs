//! A pool of members in a real etcd.

use crate::etcd_program::program;
use crate::etcd_server::Etcd;

use crate::tiers::tier;
use esker_config::etcd::EtcdTrust;
use esker_origin::PathMetadata;
use esker_site::serve::RunningTier;
use esker_site::{Client, MetadataQuery};
use esker_site_cache::entry::Wants;
use esker_testkit::port::free_port;
use esker_testkit::wait::{HANG, eventually_async};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

async fn member(etcd: &Etcd) -> Arc<RunningTier> {
    tier(&[], |c| {
        c.services = Some(2);
        c.etcd = vec![etcd.url.clone()];
        c.pool = Some("lab".into());
    })
    .await
}

fn linked(edge: &RunningTier) -> usize {
    let status = edge.node.upstream().status();
    let parents = status["parents"].as_array().unwrap();
    parents.iter().filter(|p| p["linked"] == true).count()
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    eventually_async(async || holds().then_some(()).ok_or(what)).await;
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
        c.rules.settings.patience = HANG;
    })
    .await;
    let client = Client::connect(&edge.url, "test").await.unwrap();
    let ask = || async {
        let path = file.to_str().unwrap().as_bytes();
        let asked = MetadataQuery {
            max_age: Some(Duration::ZERO),
            ..MetadataQuery::new("file://", path, Wants::Stat)
        };
        let given = client.query(asked).await.unwrap();
        assert!(matches!(given.found, PathMetadata::Present(_)));
    };
    // The first request may arrive before the members are known: it waits.
    ask().await;
    assert_eq!(linked(&edge), 1);
    let second = member(&etcd).await;
    until("the second member is found", || linked(&edge) == 2).await;
    first.stop().await;
    ask().await;
    until("the first member is taken out", || {
        edge.node.upstream().status()["parents"]
            .as_array()
            .unwrap()
            .len()
            == 1
    })
    .await;
    // Without etcd, the last known members are used.
    etcd.stop();
    ask().await;
    // After its restart with its data, the member registers again if its lease has expired meanwhile.
    etcd.child = Etcd::run(etcd.folder.path(), etcd.ports);
    etcd.wait();
    let third = member(&etcd).await;
    until("the third member is found", || linked(&edge) == 2).await;
    second.stop().await;
    ask().await;
    third.stop().await;
}

/// Any client of etcd can put any text into a pool. Values that are not a member's address, or have options for trusted keys, are
/// ignored; the process at an address must prove a known host key.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_member_is_not_believed() {
    let etcd = Etcd::start();
    let times = esker_etcd::Times {
        connect: HANG,
        keep_alive: HANG,
        answer: HANG,
    };
    let urls = [etcd.url.clone()];
    let store = esker_etcd::Etcd::connect(&urls, &EtcdTrust::default(), times)
        .await
        .unwrap();
    // A tier of another user, without a known key.
    let home = tempfile::tempdir().unwrap();
    let hostile = tier(&[], |c| c.access_folder = Some(home.path().join("access"))).await;
    let keyed = hostile.url.replace("http://", "esker://");
    for (n, text) in [
        "http://10.0.0.1:7500",
        "unix:/run/site.sock",
        "nonsense",
        &format!("{keyed}?trust-new-host"),
        &format!("{keyed}?known-hosts=/dev/null"),
        &keyed,
    ]
    .iter()
    .enumerate()
    {
        let key = format!("/esker/site/lab/{n}");
        store.put(&key, text, None).await.unwrap();
    }
    let known = home.path().join("known_hosts");
    std::fs::write(&known, "").unwrap();
    let edge = tier(&[], |c| {
        c.etcd = vec![etcd.url.clone()];
        c.pool = Some("lab".into());
        c.keys.known_hosts = Some(known.clone());
    })
    .await;
    let parents = || {
        let status = edge.node.upstream().status();
        let all = status["parents"].as_array().unwrap().clone();
        all.into_iter()
            .map(|p| {
                (
                    p["url"].clone(),
                    p["linked"] == true,
                    p["last_error"].to_string(),
                )
            })
            .collect::<Vec<_>>()
    };
    until("the pool is read, and its member tried", || {
        parents()
            .iter()
            .any(|(.., error)| error.contains("not known"))
    })
    .await;
    let found = parents();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0].0, found[0].1), (&keyed.as_str().into(), false));
}

/// Creates certificates with OpenSSL: an authority's, etcd's, and a client's.
fn certificates(folder: &Path) {
    const SCRIPT: &str = r#"
        set -eu
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=ca" -addext basicConstraints=critical,CA:TRUE \
            -addext keyUsage=critical,keyCertSign -keyout ca.key -out ca.pem
        sign() { # name, extensions
            openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr"
            printf '%s\n' "$2" > ext
            openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out "$1.pem"
        }
        sign server 'subjectAltName=IP:127.0.0.1'
        sign edge 'extendedKeyUsage=clientAuth'
        chmod 600 *.key
    "#;
    let made = Command::new("sh")
        .args(["-c", SCRIPT])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}

/// A remote etcd is reached over TLS, with a password or with a certificate.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_reached_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    certificates(folder.path());
    for by_certificate in [false, true] {
        let data = tempfile::tempdir().unwrap();
        let ports = [free_port(), free_port()];
        let url = format!("https://127.0.0.1:{}", ports[0]);
        let peer = format!("http://127.0.0.1:{}", ports[1]);
        let mut command = Command::new(program());
        command
            .arg("--data-dir")
            .arg(data.path())
            .args([
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &format!("default={peer}")])
            .arg("--cert-file")
            .arg(at("server.pem"))
            .arg("--key-file")
            .arg(at("server.key"));
        if by_certificate {
            command
                .arg("--client-cert-auth")
                .arg("--trusted-ca-file")
                .arg(at("ca.pem"));
        }
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let etcd = Etcd {
            child,
            url: url.clone(),
            folder: data,
            ports,
        };
        etcd.wait();
        let mut trust = EtcdTrust {
            ca: Some(at("ca.pem")),
            ..EtcdTrust::default()
        };
        if by_certificate {
            trust.certificate = Some(at("edge.pem"));
            trust.key = Some(at("edge.key"));
        } else {
            let change = |path: &str, json: &str| {
                let out = Command::new("curl")
                    .args(["--silent", "--show-error", "--fail", "--cacert"])
                    .arg(at("ca.pem"))
                    .args(["--data", json, &format!("{url}/v3/auth/{path}")])
                    .output()
                    .unwrap();
                assert!(out.status.success(), "{out:?}");
            };
            change("user/add", r#"{"name":"root","password":"s3cret word"}"#);
            change("role/add", r#"{"name":"root"}"#);
            change("user/grant", r#"{"user":"root","role":"root"}"#);
            change("enable", "{}");
            trust.user = Some("root".into());
            trust.password_file = Some(at("password"));
            std::fs::write(at("password"), "s3cret word\n").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(at("password"), mode).unwrap();
        }
        let with = |trust: EtcdTrust, services| {
            let url = url.clone();
            tier(&[], move |c| {
                c.services = services;
                c.etcd = vec![url];
                c.etcd_trust = trust;
                c.pool = Some("lab".into());
            })
        };
        let cloud = with(trust.clone(), Some(2)).await;
        let edge = with(trust.clone(), None).await;
        until("the member is found", || linked(&edge) == 1).await;
        cloud.stop().await;
        edge.stop().await;
    }
}
