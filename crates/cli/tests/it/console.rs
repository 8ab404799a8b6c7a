//! `esker console`: the pages of a folder, of a server's folder, and of a remote server through a local tunnel.

use crate::access::{Lab, has, is_root, outside, public};
use crate::serve::{Served, esker, run, text};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The running command, and the address that it printed.
struct Pages {
    child: Child,
    url: String,
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pages {
    fn of(folder: &Path, target: &str) -> Self {
        let mut child = esker(folder)
            .args(["console", target, "--print"])
            .env_remove("SSH_AUTH_SOCK")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut url).unwrap();
        if url.is_empty() {
            let mut said = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut said);
            panic!("it ended: {said}");
        }
        Self {
            child,
            url: url.trim().to_owned(),
        }
    }

    fn at(&self) -> &str {
        let rest = self.url.strip_prefix("http://").unwrap();
        rest.split('/').next().unwrap()
    }

    /// Returns the status and the complete response.
    fn request(&self, request: &str, headers: &[&str], body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.at()).unwrap();
        let headers: String = headers.iter().flat_map(|h| [*h, "\r\n"]).collect();
        write!(
            stream,
            "{request} HTTP/1.1\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = text(&answer);
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }

    fn get(&self, path: &str) -> (u16, String) {
        let host = format!("host: {}", self.at());
        self.request(&format!("GET {path}"), &[&host], "")
    }
}

#[test]
fn a_folder_is_served_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    assert!(run(dir.path(), &["init", "lab.esker"]).status.success());
    assert!(
        run(dir.path(), &["put", "lab.esker", "job:1"])
            .status
            .success()
    );
    let mut pages = Pages::of(dir.path(), "lab.esker");
    // The kernel reports the browser's user: the address contains no secret.
    assert!(pages.url.ends_with('/'), "{}", pages.url);
    let (status, page) = pages.get("/");
    assert_eq!(status, 200);
    assert!(page.contains("<title>"), "{page}");
    let (status, home) = pages.get("/api/v1/home");
    assert_eq!(status, 200, "{home}");
    assert!(home.contains("\"Job\":1"), "{home}");
    // Other commands work meanwhile, through this process.
    assert!(
        run(dir.path(), &["put", "lab.esker", "job:2"])
            .status
            .success()
    );
    let interrupted = Command::new("kill")
        .args(["-INT", &pages.child.id().to_string()])
        .status();
    assert!(interrupted.unwrap().success());
    assert!(pages.child.wait().unwrap().success());
    assert!(
        run(dir.path(), &["get", "lab.esker", "job:2"])
            .status
            .success()
    );
}

#[test]
fn the_folder_of_a_server_is_shown_by_that_server() {
    let dir = tempfile::tempdir().unwrap();
    let _server = Served::start(dir.path(), &[]);
    assert!(
        run(dir.path(), &["put", "lab.esker", "job:7"])
            .status
            .success()
    );
    let pages = Pages::of(dir.path(), "lab.esker");
    let (status, home) = pages.get("/api/v1/home");
    assert_eq!(status, 200, "{home}");
    assert!(home.contains("job:7"), "{home}");
    // A page of another site, or one reached through a rebound DNS name, gets nothing.
    let host = format!("host: {}", pages.at());
    let home = "GET /api/v1/home";
    let (status, said) = pages.request(home, &[&host, "origin: https://evil.example"], "");
    assert_eq!(status, 403, "{said}");
    let (status, _) = pages.request(home, &["host: evil.example"], "");
    assert_eq!(status, 403);
    // Neither does a page of another program on this machine.
    let (status, _) = pages.request(home, &[&host, "origin: http://127.0.0.1:1"], "");
    assert_eq!(status, 403);
    let own = format!("origin: http://{}", pages.at());
    let (status, _) = pages.request(home, &[&host, &own], "");
    assert_eq!(status, 200);
}

#[test]
fn a_remote_server_is_shown_to_the_holder_of_a_key() {
    let Some(host) = outside() else { return };
    if !has("ssh-keygen") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::start(dir.path(), &format!("{host}:0"));
    let target = format!("{}?trust-new-host", lab.target());
    let key = lab.key("id_ed25519", &["-t", "ed25519"], "");
    lab.refuses(&["console", &target, "--print"], "has no rights here");
    lab.does(&[
        "grant",
        "lab.esker",
        "--key",
        &public(&key),
        "--role",
        "read",
    ]);
    lab.does_then(&["stats", &target]);
    let pages = Pages::of(dir.path(), &target);
    let (status, session) = pages.get("/api/v1/session");
    assert_eq!(status, 200, "{session}");
    assert!(session.contains("\"role\":\"read\""), "{session}");
    assert!(session.contains("\"how\":\"key\""), "{session}");
    assert!(
        session.contains(&lab.target()),
        "what it is called: {session}"
    );
    assert_eq!(pages.get("/").0, 200);
    // The page has only the permissions of the key.
    let host = format!("host: {}", pages.at());
    let line = r#"{"op":"ensure_vertex","id":"job:9"}"#;
    let (status, said) = pages.request("POST /api/v1/apply", &[&host], line);
    assert_eq!(status, 403, "{said}");
    assert!(said.contains("needs `write`"), "{said}");
    // Another user of this machine cannot use the tunnel.
    if is_root() && has("setpriv") && has("curl") {
        let other = Command::new("setpriv")
            .args(["--reuid=65534", "--clear-groups", "curl", "-s", &pages.url])
            .output()
            .unwrap();
        let said = text(&other.stdout);
        assert!(said.contains("its user's own"), "{said}");
    }
    // An unavailable server is reported, and used again once it is back.
    let address = lab.address().to_owned();
    drop(lab);
    let (status, said) = pages.get("/api/v1/home");
    assert_eq!(status, 502, "{said}");
    let _lab = Lab::start(dir.path(), &address);
    assert_eq!(pages.get("/api/v1/home").0, 200);
}

#[test]
fn mistakes_are_told() {
    let dir = tempfile::tempdir().unwrap();
    for (target, words) in [
        ("none.esker", "none.esker"),
        ("esker://127.0.0.1:1", "nothing listens at 127.0.0.1:1"),
        ("esker://", "esker://"),
    ] {
        let out = run(dir.path(), &["console", target, "--print"]);
        let said = text(&out.stderr);
        assert!(!out.status.success(), "{target}");
        assert!(said.contains(words), "{target}: {said}");
    }
    let used = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = used.local_addr().unwrap().port().to_string();
    let _server = Served::start(dir.path(), &[]);
    let out = run(
        dir.path(),
        &["console", "lab.esker", "--print", "--port", &port],
    );
    let said = text(&out.stderr);
    assert!(said.contains("choose another port"), "{said}");
}
