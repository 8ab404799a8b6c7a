//! Access control of a tier: its owner's processes are admitted by kernel identity, requests for pages of other sites refused. Attacks
//! are carried out by a real second user.

use crate::sources::outside;
use crate::tiers::tier;
use esker_access::authorized::Terms;
use esker_access::{HostKey, Role, grants};
use esker_site::serve::RunningTier;
use esker_site::{Client, Config, MetadataQuery, Refused, TierAddress};
use esker_site_cache::entry::Wants;
use esker_testkit::wait::eventually_async;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

/// Second user of this machine: one without an account, and not the overflow user.
pub(crate) const OTHER_USER: &str = "54321";

pub(crate) fn is_root() -> bool {
    esker_access::peer::own_user() == 0
}

/// Runs curl as `user`, or as this process's.
fn curl(user: Option<&str>, args: &[&str]) -> Output {
    let mut command = match user {
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", user, "--regid", user, "--clear-groups", "curl"]);
            command
        }
        None => Command::new("curl"),
    };
    command
        .args(["-s", "-w", "\n%{http_code}", "--max-time", "60"])
        .args(args)
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the status and the body of an answer.
fn said(output: &Output) -> (u16, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, code) = text.rsplit_once('\n').unwrap_or(("", "0"));
    (code.parse().unwrap_or(0), body.to_owned())
}

async fn asks(user: Option<&'static str>, args: Vec<String>) -> (u16, String) {
    let asked = tokio::task::spawn_blocking(move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        said(&curl(user, &args))
    });
    asked.await.unwrap()
}

/// Creates a folder whose names only its owner can list.
fn private() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s3cret-name"), "x").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

fn requests(folder: &Path) -> Vec<(&'static str, String)> {
    let at = folder.display();
    vec![
        ("GET", format!("/v1/list?url=file://{at}")),
        ("GET", format!("/v1/stat?url=file://{at}/s3cret-name")),
        ("GET", format!("/v1/explain?url=file://{at}/s3cret-name")),
        ("POST", format!("/v1/invalidate?url=file://{at}")),
        ("GET", "/v1/status".to_owned()),
        ("GET", "/nowhere".to_owned()),
        ("TRACE", "/v1/status".to_owned()),
        ("GET", "/metrics".to_owned()),
        ("POST", "/esker.v1.Site/Link".to_owned()),
        ("POST", "/esker.v1.Access/Token".to_owned()),
        ("OPTIONS", "/esker.v1.Access/Token".to_owned()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_of_this_machine_is_not_answered() {
    if !is_root() {
        println!("skipped: only user 0 can be other users");
        return;
    }
    let folder = private();
    let tier = tier(&[], |_| {}).await;
    let list = format!(
        "{}/v1/list?url=file://{}",
        tier.url,
        folder.path().display()
    );
    let (code, body) = asks(None, vec![list.clone()]).await;
    assert!(code == 200 && body.contains("s3cret-name"), "{code} {body}");
    for (method, rest) in requests(folder.path()) {
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            for kind in ["application/grpc", "application/json"] {
                let url = format!("{}{rest}", tier.url);
                let kind = format!("content-type: {kind}");
                let args = ["-X", method, version, "-H", &kind, "-i", &url];
                let args = args.map(str::to_owned).to_vec();
                let (code, body) = asks(Some(OTHER_USER), args).await;
                let refused = code == 401 || code == 200 && body.contains("grpc-status: 16");
                assert!(refused, "{method} {rest} {version}: {code} {body}");
                assert!(body.contains("54321"), "{method} {rest}: {body}");
                assert!(!body.contains("s3cret-name"), "{method} {rest}: {body}");
            }
        }
    }
    let (code, body) = asks(Some(OTHER_USER), vec![format!("{}/health", tier.url)]).await;
    assert_eq!((code, body.trim()), (200, "ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_is_not_answered() {
    let folder = private();
    let tier = tier(&[], |_| {}).await;
    let port = tier.url.rsplit_once(':').unwrap().1;
    let own = format!("host: 127.0.0.1:{port}");
    let hosts = [
        // A foreign name that resolves to this machine, with and without gRPC's headers.
        vec!["host: evil.example".to_owned()],
        vec![format!("host: evil.example:{port}")],
        vec![
            format!("host: evil.example:{port}"),
            "content-type: application/grpc".to_owned(),
        ],
        // Pages of other sites, of this machine, too.
        vec![own.clone(), "origin: https://evil.example".to_owned()],
        vec![own.clone(), "origin: http://127.0.0.1:8888".to_owned()],
        vec![own.clone(), "sec-fetch-site: cross-site".to_owned()],
        // Requests forwarded by a proxy.
        vec![own.clone(), "x-forwarded-for: 10.0.0.7".to_owned()],
    ];
    for (method, rest) in requests(folder.path()) {
        for headers in &hosts {
            let mut args = vec!["-X".to_owned(), method.to_owned(), "-i".to_owned()];
            for header in headers {
                args.extend(["-H".to_owned(), header.clone()]);
            }
            args.push(format!("{}{rest}", tier.url));
            let (code, body) = asks(None, args).await;
            let refused = code == 403 || code == 200 && body.contains("grpc-status: 7");
            assert!(refused, "{method} {rest} {headers:?}: {code} {body}");
            assert!(!body.contains("s3cret-name"), "{method} {rest}: {body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_is_its_owners_alone() {
    let folder = private();
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = place.path().join("site.sock");
    let tier = tier(&[], |c| c.listen = format!("unix:{}", socket.display())).await;
    assert_eq!(tier.url, format!("unix:{}", socket.display()));
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // A link, and HTTP.
    let client = Client::connect(&tier.url, "test").await.unwrap();
    let at = folder.path().to_str().unwrap();
    let given = client
        .query(MetadataQuery::new("file://", at.as_bytes(), Wants::List))
        .await;
    assert!(given.is_ok(), "{given:?}");
    let by = |rest: &str| {
        let socket = socket.display().to_string();
        let url = format!("http://localhost{rest}");
        vec!["--unix-socket".to_owned(), socket, url]
    };
    let list = by(&format!("/v1/list?url=file://{at}"));
    let (code, body) = asks(None, list.clone()).await;
    assert!(code == 200 && body.contains("s3cret-name"), "{code} {body}");
    if is_root() {
        let (code, _) = asks(Some(OTHER_USER), list.clone()).await;
        assert_eq!(code, 0, "another user reaches the socket");
        // Even if its mode admits other users.
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
        let (code, body) = asks(Some(OTHER_USER), list).await;
        assert_eq!(code, 401, "{body}");
        assert!(!body.contains("s3cret-name"), "{body}");
    }
    // A socket with a listener is kept; one that was left behind is replaced.
    let second = Config {
        listen: tier.url.clone(),
        ..Config::default()
    };
    assert!(RunningTier::start(second.clone()).await.is_err());
    drop(client);
    tier.stop().await;
    eventually_async(async || {
        let removed = !socket.exists();
        removed.then_some(()).ok_or("the socket is not removed")
    })
    .await;
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    // A process that another test is starting has a copy of the listener until it has executed its program.
    eventually_async(async || {
        let connected = std::os::unix::net::UnixStream::connect(&socket);
        connected.err().ok_or("the socket is still listened at")
    })
    .await;
    RunningTier::start(second).await.unwrap().stop().await;
}

/// Another user holds as many connections as possible; the owner is still answered.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_another_user_leave_room_for_the_owner() {
    if !is_root() {
        println!("skipped: only user 0 can be other users");
        return;
    }
    let folder = private();
    let tier = tier(&[], |c| c.connections = 4).await;
    let (host, port) = ("127.0.0.1", tier.url.rsplit_once(':').unwrap().1);
    // One byte each, and nothing after it.
    let script = format!(
        "for i in $(seq 40); do exec {{fd}}<>/dev/tcp/{host}/{port} && printf G >&$fd; done 2>/dev/null; echo held; read -r"
    );
    let mut hostile = Command::new("setpriv")
        .args([
            "--reuid",
            OTHER_USER,
            "--regid",
            OTHER_USER,
            "--clear-groups",
            "bash",
            "-c",
            &script,
        ])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(hostile.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "held");
    let list = format!(
        "{}/v1/list?url=file://{}",
        tier.url,
        folder.path().display()
    );
    let (code, body) = asks(None, vec![list]).await;
    drop(hostile.stdin.take());
    hostile.wait().unwrap();
    assert!(code == 200 && body.contains("s3cret-name"), "{code} {body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tier_asks_no_origin_that_its_owner_has_not_named() {
    let folder = private();
    let silent = Config {
        listen: "127.0.0.1:0".into(),
        ..Config::default()
    };
    let tier = RunningTier::start(silent).await.unwrap();
    let client = Client::connect(&tier.url, "test").await.unwrap();
    for origin in ["file://", "sftp://127.0.0.1:1", "ftp://127.0.0.1:1"] {
        let path = folder.path().to_str().unwrap().as_bytes();
        let refused = client
            .query(MetadataQuery::new(origin, path, Wants::List))
            .await;
        let Err(Refused::Named(why)) = refused else {
            panic!("{origin}: {refused:?}");
        };
        assert!(
            why.contains("allow = [") && why.contains("--allow"),
            "{why}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_on_disk_is_its_owners_alone() {
    let folder = private();
    let disk = tempfile::tempdir().unwrap();
    // As created by earlier versions, with a umask of 022.
    let kept = disk.path().join("kept");
    fs::create_dir(&kept).unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(disk.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let tier: Arc<RunningTier> = tier(&[], |c| c.disk = Some(kept.clone())).await;
    let client = Client::connect(&tier.url, "test").await.unwrap();
    let path = folder.path().to_str().unwrap().as_bytes();
    client
        .query(MetadataQuery::new("file://", path, Wants::List))
        .await
        .unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&kept), 0o700);
    for entry in fs::read_dir(&kept).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn tiers_on_other_machines_are_asked_with_keys_alone() {
    let refused = TierAddress::parse("http://edge.example:7500").unwrap_err();
    assert!(refused.contains("esker://edge.example:7500"), "{refused}");
}

/// From other machines, an SSH key is proved over TLS, and counts only while it has rights here.
#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_machine_a_key_is_proved() {
    let Some(host) = outside() else { return };
    let folder = private();
    let home = tempfile::tempdir().unwrap();
    let (rights, key) = (home.path().join("rights"), home.path().join("key"));
    let known = home.path().join("known_hosts");
    let ann = HostKey::open_or_create(&key).unwrap();
    let upstream = tier(&[], |c| {
        c.listen = format!("{host}:0");
        c.access_folder = Some(rights.clone());
    })
    .await;
    assert!(upstream.url.starts_with("esker://"), "{}", upstream.url);
    let authority = upstream.url.strip_prefix("esker://").unwrap().to_owned();
    let list = format!("/v1/list?url=file://{}", folder.path().display());
    let (code, body) = asks(None, vec![format!("http://{authority}{list}")]).await;
    assert!(
        code == 401 && !body.contains("s3cret-name"),
        "{code} {body}"
    );
    let (code, body) = asks(
        None,
        vec!["-k".into(), format!("https://{authority}{list}")],
    )
    .await;
    assert!(
        code == 401 && !body.contains("s3cret-name"),
        "{code} {body}"
    );
    let plain = TierAddress::parse(&format!("http://{authority}")).unwrap_err();
    assert!(plain.contains("esker://"), "{plain}");
    let by = |more: &str| {
        let (key, known) = (key.display(), known.display());
        format!("{}?key={key}&known-hosts={known}{more}", upstream.url)
    };
    // Neither has the other's key.
    for (url, why) in [
        (by(""), "is not known"),
        (by("&trust-new-host"), "has no rights here"),
    ] {
        let refused = Client::connect(&url, "test").await.unwrap_err().to_string();
        assert!(refused.contains(why), "{url}: {refused}");
    }
    let terms = Terms {
        role: Some(Role::Read),
        ..Terms::default()
    };
    grants::grant(&rights, ann.public(), &terms).unwrap();
    let client = eventually_async(async || Client::connect(&by(""), "test").await).await;
    let path = folder.path().to_str().unwrap().as_bytes().to_vec();
    let ask = || client.query(MetadataQuery::new("file://", &path, Wants::List));
    ask().await.unwrap();
    // A downstream tier does so by its file.
    let below = tier(&[&upstream], |c| {
        c.keys.key = Some(key.clone());
        c.keys.known_hosts = Some(known.clone());
    })
    .await;
    let near = Client::connect(&below.url, "test").await.unwrap();
    near.query(MetadataQuery::new("file://", &path, Wants::List))
        .await
        .unwrap();
    // The link ends with the right, even if it was opened before.
    grants::revoke(&rights, &ann.public().to_openssh().unwrap()).unwrap();
    eventually_async(async || {
        let asked = ask().await;
        asked.err().ok_or("a link outlives the right to it")
    })
    .await;
    assert!(Client::connect(&by(""), "test").await.is_err());
}
