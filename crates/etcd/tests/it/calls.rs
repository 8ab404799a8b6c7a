//! Tests of all calls against a real etcd.

use crate::server::Etcd as Server;
use esker_config::etcd::EtcdTrust;
use esker_etcd::{Etcd, Times, Txn};
use esker_testkit::wait::{HANG, eventually_async};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

const TIMES: Times = Times {
    connect: HANG,
    keep_alive: HANG,
    answer: HANG,
};

async fn connect(server: &Server, trust: &EtcdTrust) -> Etcd {
    let urls = [server.url.clone()];
    Etcd::connect(&urls, trust, TIMES).await.unwrap()
}

#[tokio::test]
async fn keys_are_put_listed_and_deleted() {
    let server = Server::start();
    let etcd = connect(&server, &EtcdTrust::default()).await;
    for (key, value) in [("/a/1", "x"), ("/a/2", "y"), ("/b", "z")] {
        etcd.put(key, value, None).await.unwrap();
    }
    let found = etcd.list("/a/").await.unwrap();
    let pairs: Vec<_> = found.pairs.iter().map(|p| (&*p.key, &*p.value)).collect();
    assert_eq!(pairs, [("/a/1", "x"), ("/a/2", "y")]);
    let last = etcd.get("/b").await.unwrap().unwrap();
    assert_eq!((&*last.value, last.lease), ("z", 0));
    assert_eq!(
        (last.created, last.modified),
        (found.revision, found.revision)
    );
    etcd.delete("/b").await.unwrap();
    etcd.delete("/b").await.unwrap();
    assert!(etcd.get("/b").await.unwrap().is_none());
}

#[tokio::test]
async fn a_transaction_is_made_only_if_its_conditions_hold() {
    let server = Server::start();
    let etcd = connect(&server, &EtcdTrust::default()).await;
    let first = || Txn::new().when_absent("/k").put("/k", "1", None);
    let made = etcd.commit(first()).await.unwrap().unwrap();
    assert_eq!(etcd.commit(first()).await.unwrap(), None);
    let second = |at| Txn::new().when_modified_at("/k", at).put("/k", "2", None);
    assert_eq!(etcd.commit(second(made + 1)).await.unwrap(), None);
    assert!(etcd.commit(second(made)).await.unwrap().unwrap() > made);
    let lease = etcd.grant(600).await.unwrap();
    etcd.put("/k", "3", Some(lease)).await.unwrap();
    let gone = |lease| Txn::new().when_under_lease("/k", lease).delete("/k");
    assert_eq!(etcd.commit(gone(lease + 1)).await.unwrap(), None);
    assert_eq!(etcd.get("/k").await.unwrap().unwrap().lease, lease);
    assert!(etcd.commit(gone(lease)).await.unwrap().is_some());
    assert!(etcd.get("/k").await.unwrap().is_none());
}

#[tokio::test]
async fn a_lease_ends_with_its_keys_and_watches_are_told() {
    let server = Server::start();
    let etcd = connect(&server, &EtcdTrust::default()).await;
    let before = etcd.list("/w/").await.unwrap().revision;
    let mut watch = etcd.watch("/w/", before).await.unwrap();
    let lease = etcd.grant(600).await.unwrap();
    etcd.put("/w/1", "x", Some(lease)).await.unwrap();
    assert!(watch.changed().await.unwrap());
    assert!(etcd.keep_alive(lease).await.unwrap());
    etcd.revoke(lease).await.unwrap();
    assert!(watch.changed().await.unwrap(), "the key is deleted");
    assert!(etcd.list("/w/").await.unwrap().pairs.is_empty());
    assert!(!etcd.keep_alive(lease).await.unwrap());
    // Changes before the start of the watch are delivered as well.
    let mut again = etcd.watch("/w/", before).await.unwrap();
    assert!(again.changed().await.unwrap());
}

/// etcd forgets all tokens on a restart: the client requests a new one.
#[tokio::test]
async fn an_account_gets_a_new_token_when_etcd_has_forgotten_it() {
    let mut server = Server::start();
    let change = |path: &str, json: &str| {
        let out = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--data", json])
            .arg(format!("{}/v3/auth/{path}", server.url))
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
    };
    change("user/add", r#"{"name":"root","password":"a word"}"#);
    change("role/add", r#"{"name":"root"}"#);
    change("user/grant", r#"{"user":"root","role":"root"}"#);
    change("enable", "{}");
    let anonymous = connect(&server, &EtcdTrust::default()).await;
    let refused = anonymous
        .put("/k", "x", None)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("user name is empty"), "{refused}");
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    let write = |word: &str| {
        std::fs::write(&password, word).unwrap();
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    let trust = EtcdTrust {
        user: Some("root".into()),
        password_file: Some(password.clone()),
        ..EtcdTrust::default()
    };
    write("another word");
    let urls = [server.url.clone()];
    let refused = Etcd::connect(&urls, &trust, TIMES).await.err().unwrap();
    assert!(
        refused.to_string().contains("authentication failed"),
        "{refused}"
    );
    write("a word");
    let etcd = connect(&server, &trust).await;
    etcd.put("/k", "x", None).await.unwrap();
    server.stop();
    server.child = Server::run(server.folder.path(), server.ports);
    server.wait();
    // The first calls after a restart may use the broken connection.
    eventually_async(async || etcd.put("/k", "y", None).await).await;
    assert_eq!(etcd.get("/k").await.unwrap().unwrap().value, "y");
}

#[tokio::test]
async fn what_is_no_etcd_is_told_with_its_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let urls = [format!("http://{}", listener.local_addr().unwrap())];
    drop(listener);
    let etcd = Etcd::connect(&urls, &EtcdTrust::default(), TIMES).await;
    let refused = etcd.unwrap().get("/k").await.unwrap_err().to_string();
    assert!(refused.contains(&urls[0]), "{refused}");
    assert!(refused.contains("Connection refused"), "{refused}");
}
