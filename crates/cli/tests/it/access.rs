//! Access by SSH keys, with real servers, clients, keys and agents: at a non-loopback address of this machine, where no client is
//! identified by its user id.

use crate::serve::{esker, text};
use esker_testkit::wait::{eventually, wait_until};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Returns a non-loopback address of this machine; prints a message without one.
pub(crate) fn outside() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends no packet: the system only selects a route.
    let address = socket
        .connect("192.0.2.77:9")
        .and_then(|()| socket.local_addr());
    let address = address.ok().map(|a| a.ip()).filter(|a| !a.is_loopback());
    if address.is_none() {
        eprintln!("skipped: this machine has no address but loopback");
    }
    address.map(|a| a.to_string())
}

pub(crate) fn has(program: &str) -> bool {
    let there = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|o| o.status.success());
    if !there {
        eprintln!("skipped: {program} is not installed");
    }
    there
}

pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    let root = text(&id.stdout).trim() == "0";
    if !root {
        eprintln!("skipped: only root can be another user");
    }
    root
}

/// A server on `lab.esker`, with its log.
pub(crate) struct Lab {
    folder: PathBuf,
    child: Child,
    address: String,
    log: PathBuf,
}

impl Lab {
    pub(crate) fn start(folder: &Path, listen: &str) -> Self {
        let (port, log) = (folder.join("port"), folder.join("log"));
        let _ = fs::remove_file(&port);
        let child = esker(folder)
            .args(["serve", "lab.esker", "--create", "--memory", "32MiB"])
            .args(["--listen", listen, "--port-file", "port", "--drain", "1s"])
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut lab = Self {
            folder: folder.to_path_buf(),
            child,
            address: String::new(),
            log,
        };
        lab.address = eventually(|| {
            let address = fs::read_to_string(&port).unwrap_or_default();
            match address.trim() {
                "" => Err(format!("it does not start: {}", lab.log())),
                address => Ok(address.to_owned()),
            }
        });
        lab
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn target(&self) -> String {
        format!("esker://{}", self.address)
    }

    fn esker(&self, args: &[&str]) -> Output {
        esker(&self.folder)
            .env_remove("SSH_AUTH_SOCK")
            .args(args)
            .output()
            .unwrap()
    }

    /// Returns the output of a command, or its error message.
    fn tries(&self, args: &[&str]) -> Result<String, String> {
        let out = self.esker(args);
        if out.status.success() {
            return Ok(text(&out.stdout));
        }
        Err(format!("{args:?}: {}\n{}", text(&out.stderr), self.log()))
    }

    /// Runs a command that must succeed.
    pub(crate) fn does(&self, args: &[&str]) -> String {
        self.tries(args).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs a command that succeeds once the server has reloaded the permissions.
    pub(crate) fn does_then(&self, args: &[&str]) -> String {
        anew(|| self.tries(args))
    }

    /// Returns the error of a command that is refused with these words, or a description of what happened instead.
    fn refused(&self, args: &[&str], words: &str) -> Result<String, String> {
        let out = self.esker(args);
        let said = text(&out.stderr);
        if out.status.code() == Some(2) && said.contains(words) {
            return Ok(said);
        }
        Err(format!("{args:?}: {}: {said}", out.status))
    }

    /// Runs a command that must be refused with these words.
    pub(crate) fn refuses(&self, args: &[&str], words: &str) -> String {
        let refused = self.refused(args, words);
        refused.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs a command that is refused once the server has reloaded the permissions.
    fn refuses_then(&self, args: &[&str], words: &str) {
        anew(|| self.refused(args, words));
    }

    /// Creates a key in `~/.ssh`, with a passphrase if one is given.
    pub(crate) fn key(&self, name: &str, kind: &[&str], passphrase: &str) -> PathBuf {
        let folder = self.folder.join(".ssh");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        let made = Command::new("ssh-keygen")
            .args(["-q", "-C", &format!("{name}@lab"), "-N", passphrase, "-f"])
            .arg(&path)
            .args(kind)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        path
    }
}

/// Retries until success, at the interval at which a server reloads its permissions: clients with more failed proofs are blocked.
fn anew<T>(mut ask: impl FnMut() -> Result<T, String>) -> T {
    eventually(|| ask().inspect_err(|_| std::thread::sleep(Duration::from_millis(500))))
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn public(key: &Path) -> String {
    format!("{}.pub", key.display())
}

#[test]
fn a_key_opens_what_it_was_granted_and_no_more() {
    let Some(host) = outside() else { return };
    if !has("ssh-keygen") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut lab = Lab::start(dir.path(), &format!("{host}:0"));
    let at = lab.target();
    let at = at.as_str();
    // The client does not talk to an unknown server.
    let said = lab.refuses(&["get", at, "user:1"], "is not known");
    assert!(said.contains("--trust-new-host"), "{said}");
    assert!(!dir.path().join(".esker/known_hosts").exists());
    lab.refuses(
        &["get", at, "user:1", "--trust-new-host"],
        "there is no key to show",
    );
    let known = fs::read_to_string(dir.path().join(".esker/known_hosts")).unwrap();
    assert!(known.contains(" ssh-ed25519 "), "{known}");
    // Now the server is known. A key without permissions gets an error, which is logged.
    let ann = lab.key("id_ed25519", &["-t", "ed25519"], "");
    lab.refuses(&["get", at, "user:1"], "it has no rights here");
    let log = lab.log();
    let refused = log.lines().find(|l| l.contains("unknown_key")).unwrap();
    for part in ["WARN", "peer=", "SHA256:", "refused", "Prove"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    // The roles read, write and admin, in this order.
    let grant = |role: &str| {
        lab.does(&["grant", "lab.esker", "--key", &public(&ann), "--role", role]);
    };
    grant("read");
    lab.does_then(&["stats", at]);
    lab.does(&["check", at]);
    lab.refuses(&["put", at, "user:1"], "needs `write`");
    lab.refuses(&["check", at, "--repair"], "needs `admin`");
    lab.refuses(
        &[
            "sparql",
            at,
            "--update",
            "INSERT DATA { <urn:a> <urn:b> 1 }",
        ],
        "needs `write`",
    );
    lab.does(&["sparql", at, "SELECT * { ?s ?p ?o } LIMIT 1"]);
    lab.refuses(&["grant", at, "--list"], "needs `admin`");
    grant("write");
    lab.does_then(&["put", at, "user:1"]);
    lab.does(&[
        "sparql",
        at,
        "--update",
        "INSERT DATA { <urn:a> <urn:b> 1 }",
    ]);
    lab.refuses(&["compact", at], "needs `admin`");
    lab.refuses(&["cluster", "down", at], "needs `admin`");
    grant("admin");
    lab.does_then(&["compact", at]);
    // An admin grants and revokes over the network.
    let bob = lab.key("bob", &["-t", "ecdsa", "-b", "256"], "");
    lab.does(&["grant", at, "--key", &public(&bob), "--role", "read"]);
    let list = lab.does(&["grant", at, "--list"]);
    assert!(list.contains("bob@lab") && list.contains("admin"), "{list}");
    let by_bob = format!("{at}?key={}", bob.display());
    lab.does(&["get", &by_bob, "user:1"]);
    lab.does(&["revoke", at, "--key", "bob@lab"]);
    lab.refuses_then(&["get", &by_bob, "user:1"], "it was revoked");
    // Metrics count refusals.
    let local = format!("http://{}/metrics", lab.address);
    assert!(!local.is_empty());
    assert!(lab.log().contains("why=\"revoked\""));
    // An admin may stop the server.
    lab.does(&["cluster", "down", at]);
    assert!(lab.child.wait().unwrap().success());
}

#[test]
fn every_kind_of_key_and_an_agent_work() {
    let Some(host) = outside() else { return };
    if !has("ssh-keygen") || !has("ssh-agent") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::start(dir.path(), &format!("{host}:0"));
    let at = format!("{}?trust-new-host", lab.target());
    let kinds: [(&str, &[&str]); 4] = [
        ("one", &["-t", "ed25519"]),
        ("two", &["-t", "ecdsa", "-b", "256"]),
        ("three", &["-t", "ecdsa", "-b", "384"]),
        ("four", &["-t", "rsa", "-b", "2048"]),
    ];
    for (name, kind) in kinds {
        let key = lab.key(name, kind, "");
        lab.does(&["grant", "lab.esker", "--key", &public(&key)]);
        lab.does_then(&["stats", &format!("{at}&key={}", key.display())]);
    }
    // A key with a passphrase requires an agent.
    let sealed = lab.key("id_ed25519", &["-t", "ed25519"], "secret");
    lab.does(&[
        "grant",
        "lab.esker",
        "--key",
        &public(&sealed),
        "--role",
        "write",
    ]);
    lab.refuses(&["put", &at, "user:7"], "ssh-add");
    let socket = dir.path().join("agent");
    let mut agent = Command::new("ssh-agent")
        .args(["-D", "-a"])
        .arg(&socket)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the agent does not start", || socket.exists());
    let ask = dir.path().join("ask");
    fs::write(&ask, "#!/bin/sh\necho secret\n").unwrap();
    fs::set_permissions(&ask, fs::Permissions::from_mode(0o700)).unwrap();
    let added = Command::new("ssh-add")
        .arg(&sealed)
        .env("SSH_AUTH_SOCK", &socket)
        .env("SSH_ASKPASS", &ask)
        .env("SSH_ASKPASS_REQUIRE", "force")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(added.status.success(), "{}", text(&added.stderr));
    anew(|| {
        let done = esker(dir.path())
            .env("SSH_AUTH_SOCK", &socket)
            .args(["put", &at, "user:7"])
            .output()
            .unwrap();
        let said = text(&done.stderr);
        done.status.success().then_some(()).ok_or(said)
    });
    let _ = agent.kill();
    let _ = agent.wait();
}

#[test]
fn rights_end_by_the_clock_and_hold_in_some_places_only() {
    let Some(host) = outside() else { return };
    if !has("ssh-keygen") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::start(dir.path(), &format!("{host}:0"));
    let at = format!("{}?trust-new-host", lab.target());
    let key = lab.key("id_ed25519", &["-t", "ed25519"], "");
    let grant = |more: &[&str]| {
        let public = public(&key);
        lab.does(&[&["grant", "lab.esker", "--key", &public], more].concat());
    };
    grant(&["--from", "203.0.113.0/24"]);
    lab.refuses_then(&["stats", &at], "it may be used from 203.0.113.0/24 only");
    grant(&["--for", "1h"]);
    lab.does_then(&["stats", &at]);
    grant(&["--for", "1s"]);
    lab.refuses_then(&["stats", &at], "its time ended at");
    assert!(lab.log().contains("why=\"expired\""), "{}", lab.log());
    grant(&["--from", &format!("203.0.113.0/24,{host}")]);
    lab.does_then(&["stats", &at]);
    // A file that others can write grants nothing, and the log says why.
    let file = dir.path().join("lab.esker/authorized_keys");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    lab.refuses_then(&["stats", &at], "its log says why");
    assert!(lab.log().contains("can be written by others"));
    fs::remove_file(&file).unwrap();
    // ~/.esker grants access to all of a user's databases.
    lab.does(&["grant", "lab.esker", "--all", "--key", &public(&key)]);
    lab.does_then(&["stats", &at]);
    lab.does(&["revoke", "lab.esker", "--key", &public(&key)]);
    lab.refuses_then(&["stats", &at], "it was revoked");
}

/// The key's user counts, whatever user the client names.
#[test]
fn a_key_that_is_bound_to_a_user_reads_as_that_user() {
    let Some(host) = outside() else { return };
    if !has("ssh-keygen") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::start(dir.path(), &format!("{host}:0"));
    lab.does(&["mkdir", "lab.esker", "/open", "/closed"]);
    lab.does(&["touch", "lab.esker", "/open/a", "/closed/secret"]);
    lab.does(&["chmod", "lab.esker", "700", "/closed"]);
    let at = format!("{}?trust-new-host", lab.target());
    let key = lab.key("id_ed25519", &["-t", "ed25519"], "");
    lab.refuses(
        &[
            "grant",
            "lab.esker",
            "--key",
            &public(&key),
            "--as",
            "1002",
            "--role",
            "write",
        ],
        "require esker-role=\"read\"",
    );
    lab.does(&[
        "grant",
        "lab.esker",
        "--key",
        &public(&key),
        "--as",
        "1002:100",
    ]);
    assert!(lab.does_then(&["ls", &at, "/"]).contains("open"));
    assert!(lab.does(&["ls", &at, "/open"]).contains('a'));
    lab.refuses(&["ls", &at, "/closed"], "permission denied");
    lab.does(&["ls", &at, "/open", "--as", "1002:100"]);
    lab.refuses(&["ls", &at, "/open", "--as", "0"], "bound to user 1002");
    lab.refuses(&["stats", &at], "is not answered on behalf of one user");
    lab.refuses(&["mkdir", &at, "/mine"], "needs `write`");
    assert!(lab.does(&["find", &at, "/"]).contains("/open/a"));
    assert!(!lab.does(&["find", &at, "/"]).contains("secret"));
    let list = lab.does(&["grant", "lab.esker", "--list"]);
    assert!(list.contains("1002:100"), "{list}");
}

#[test]
fn a_server_with_another_key_is_not_spoken_to() {
    let Some(host) = outside() else { return };
    if !has("ssh-keygen") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::start(dir.path(), &format!("{host}:0"));
    let address = lab.address.clone();
    let key = lab.key("id_ed25519", &["-t", "ed25519"], "");
    lab.does(&["grant", "lab.esker", "--key", &public(&key)]);
    let at = lab.target();
    lab.does(&["stats", &at, "--trust-new-host"]);
    lab.does(&["stats", &at]);
    drop(lab);
    fs::remove_file(dir.path().join("lab.esker/host_key")).unwrap();
    let lab = Lab::start(dir.path(), &address);
    let said = lab.refuses(&["stats", &at, "--trust-new-host"], "HAS CHANGED");
    assert!(said.contains("known_hosts:1"), "{said}");
}

#[test]
fn plain_requests_from_elsewhere_are_refused_and_tokens_open_https() {
    let Some(host) = outside() else { return };
    if !has("curl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::start(dir.path(), &format!("{host}:0"));
    let curl = |args: &[&str]| {
        let out = Command::new("curl")
            .args(["-s", "-w", "\n%{http_code}", "--max-time", "600"])
            .args(args)
            .output()
            .unwrap();
        let all = text(&out.stdout);
        let (body, code) = all.rsplit_once('\n').unwrap_or_default();
        (code.to_owned(), body.to_owned())
    };
    let (plain, https) = (
        format!("http://{}", lab.address),
        format!("https://{}", lab.address),
    );
    assert_eq!(curl(&[&format!("{plain}/healthz")]).0, "200");
    for path in [
        "/metrics",
        "/api/v1/schema",
        "/sparql",
        "/api/v1/find?filter=x",
    ] {
        let (code, body) = curl(&[&format!("{plain}{path}")]);
        assert_eq!(code, "401", "{path}: {body}");
        assert!(body.contains("not encrypted"), "{path}: {body}");
    }
    let (code, _) = curl(&["-d", "{}", &format!("{plain}/api/v1/apply")]);
    assert_eq!(code, "401");
    let (code, body) = curl(&["-k", &format!("{https}/api/v1/schema")]);
    assert_eq!(code, "401", "{body}");
    let token = lab.does(&["grant", "lab.esker", "--token", "--for", "1h"]);
    let bearer = format!("Authorization: Bearer {}", token.trim());
    let becomes = |expected: &str| {
        anew(|| {
            let (code, body) = curl(&["-k", "-H", &bearer, &format!("{https}/api/v1/schema")]);
            (code == expected)
                .then_some(())
                .ok_or_else(|| format!("{code} {body}"))
        });
    };
    becomes("200");
    let (code, body) = curl(&[
        "-k",
        "-H",
        &bearer,
        "-d",
        "",
        &format!("{https}/api/v1/apply"),
    ]);
    assert_eq!(code, "403", "{body}");
    assert!(body.contains("needs `write`"), "{body}");
    // A token over plain HTTP grants nothing.
    let (code, body) = curl(&["-H", &bearer, &format!("{plain}/api/v1/schema")]);
    assert_eq!(code, "401");
    assert!(body.contains("revoke it"), "{body}");
    lab.does(&["revoke", "lab.esker", "--key", token.trim()]);
    becomes("401");
    assert!(lab.log().contains("why=\"token_in_the_open\""));
}

/// The kernel reports the user of a loopback connection.
#[test]
fn another_user_of_this_machine_needs_a_key() {
    if !is_root() || !has("setpriv") || !has("ssh-keygen") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::start(dir.path(), "127.0.0.1:0");
    // A separate home, and access to the program, which may be in a folder of root's.
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        Command::new("setpriv")
            .args(["--reuid", "65534", "--clear-groups"])
            .args([
                "--inh-caps",
                "+dac_read_search",
                "--ambient-caps",
                "+dac_read_search",
            ])
            .arg(env!("CARGO_BIN_EXE_esker"))
            .args(args)
            .current_dir("/")
            .env("HOME", home.path())
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let own = |path: &Path| std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
    own(home.path());
    let at = lab.target();
    lab.does(&["put", &at, "user:1"]);
    let refused = |args: &[&str], words: &str| {
        let out = run(args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    };
    refused(
        &["get", &format!("{at}?plain=on"), "user:1"],
        "user 65534 does not own this database",
    );
    refused(&["get", &at, "user:1"], "is not known");
    refused(&["get", &at, "user:1", "--trust-new-host"], "no key");
    let key = lab.key("theirs", &["-t", "ed25519"], "");
    let ssh = home.path().join(".ssh");
    fs::create_dir(&ssh).unwrap();
    fs::copy(&key, ssh.join("id_ed25519")).unwrap();
    own(&ssh);
    own(&ssh.join("id_ed25519"));
    refused(&["get", &at, "user:1"], "has no rights here");
    lab.does(&["grant", "lab.esker", "--key", &public(&key)]);
    anew(|| {
        let out = run(&["get", &at, "user:1"]);
        out.status
            .success()
            .then_some(())
            .ok_or_else(|| text(&out.stderr))
    });
    refused(&["put", &at, "user:2"], "needs `write`");
    // HTTP over loopback is treated equally.
    let curl = Command::new("setpriv")
        .args(["--reuid", "65534", "--clear-groups", "curl", "-s"])
        .arg(format!("http://{}/api/v1/stats", lab.address))
        .output()
        .unwrap();
    let said = text(&curl.stdout);
    assert!(said.contains("user 65534 does not own"), "{said}");
    // The socket in the folder, too, after the owner has opened the folder to others.
    fs::set_permissions(
        dir.path().join("lab.esker/owner"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    for (path, mode) in [
        (dir.path().to_owned(), 0o755),
        (dir.path().join("lab.esker"), 0o711),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let socket = dir.path().join("lab.esker/owner/http.sock");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    let ask = |user: &str| {
        let out = Command::new("setpriv")
            .args([
                "--reuid",
                user,
                "--clear-groups",
                "curl",
                "-s",
                "--unix-socket",
            ])
            .arg(&socket)
            .arg("http://localhost/api/v1/stats")
            .output()
            .unwrap();
        text(&out.stdout)
    };
    assert!(
        ask("65534").contains("user 65534 does not own"),
        "{}",
        ask("65534")
    );
    assert!(ask("0").contains("\"vertices\""), "{}", ask("0"));
}

/// Revoked permissions also end on open connections.
#[test]
fn an_open_connection_loses_its_rights() {
    let Some(host) = outside() else { return };
    if !has("ssh-keygen") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::start(dir.path(), &format!("{host}:0"));
    let key = lab.key("id_ed25519", &["-t", "ed25519"], "");
    lab.does(&[
        "grant",
        "lab.esker",
        "--key",
        &public(&key),
        "--role",
        "write",
    ]);
    let stats = ["stats", &*lab.target(), "--trust-new-host"];
    lab.does_then(&stats);
    let mut shell = esker(dir.path())
        .args(["shell", &lab.target()])
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut say = shell.stdin.take().unwrap();
    say.write_all(b"put user:1\n").unwrap();
    let mut done = String::new();
    let mut out = BufReader::new(shell.stdout.take().unwrap());
    out.read_line(&mut done).unwrap();
    assert!(done.contains("user:1"), "{done}");
    lab.does(&["revoke", "lab.esker", "--key", "id_ed25519@lab"]);
    // On a new connection first, then on the open one.
    lab.refuses_then(&stats, "it was revoked");
    say.write_all(b"put user:2\n").unwrap();
    drop(say);
    let out = shell.wait_with_output().unwrap();
    let said = text(&out.stderr);
    assert!(said.contains("it was revoked"), "{said}");
    let log = lab.log();
    assert!(
        log.contains("call=\"apply\" why=\"revoked\"") || log.contains("why=\"revoked\""),
        "{log}"
    );
}

/// Servers that are not on loopback authenticate to each other by the cluster's key and appear as one to clients.
#[test]
fn a_cluster_has_one_key() {
    let Some(host) = outside() else { return };
    if !has("ssh-keygen") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let port = |_| {
        let listener = std::net::TcpListener::bind((host.as_str(), 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let places: Vec<String> = (0..2).map(|n| format!("{host}:{}", port(n))).collect();
    fs::write(
        dir.path().join("two.toml"),
        format!("servers = [\"{}\"]\n", places.join("\", \"")),
    )
    .unwrap();
    let log = dir.path().join("log");
    let child = esker(dir.path())
        .args(["cluster", "up", "two.toml"])
        .stdout(fs::File::create(dir.path().join("out")).unwrap())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut lab = Lab {
        folder: dir.path().to_path_buf(),
        child,
        address: places[0].clone(),
        log,
    };
    eventually(|| {
        let out = fs::read_to_string(dir.path().join("out")).unwrap();
        out.contains("ready:")
            .then_some(())
            .ok_or_else(|| format!("it does not start: {}", lab.log()))
    });
    let key = lab.key("id_ed25519", &["-t", "ed25519"], "");
    let at = |place: &str| format!("esker://{place}?trust-new-host");
    lab.refuses(&["stats", &at(&places[0])], "has no rights here");
    let public = public(&key);
    lab.does(&["grant", "two.cluster", "--key", &public, "--role", "write"]);
    for n in 0..20 {
        lab.does(&["put", &at(&places[n % 2]), &format!("user:{n}")]);
    }
    let found = lab.does(&[
        "get",
        &at(&places[1]),
        "user:0",
        "user:1",
        "user:2",
        "user:3",
    ]);
    assert!(found.contains("user:3"), "{found}");
    let known = fs::read_to_string(dir.path().join(".esker/known_hosts")).unwrap();
    let keys: Vec<&str> = known
        .lines()
        .filter_map(|l| l.split_once(' '))
        .map(|l| l.1)
        .collect();
    assert_eq!(keys.len(), 2, "{known}");
    assert_eq!(keys[0], keys[1]);
    let id = lab.child.id().to_string();
    let stopped = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(stopped.success());
    assert!(lab.child.wait().unwrap().success());
}
