//! Sessions of the console: their visibility in process lists and logs, and listing and ending them.

use crate::serve::{esker, run, text};
use esker_testkit::wait::eventually;
use serde_json::{Value as Json, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A server that opens its pages in a browser; the browser is a script that records its arguments.
struct ConsoleServer {
    child: Child,
    folder: PathBuf,
}

impl Drop for ConsoleServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ConsoleServer {
    fn start(folder: &Path, config: &str) -> Self {
        let browser = folder.join("bin/xdg-open");
        fs::create_dir(folder.join("bin")).unwrap();
        let script = "#!/bin/sh\ntr '\\0' ' ' < /proc/$$/cmdline > \"$HOME/argv.new\"\nmv \"$HOME/argv.new\" \"$HOME/argv\"\n";
        fs::write(&browser, script).unwrap();
        fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("server.toml"), config).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let child = esker(folder)
            .args(["serve", "lab.esker", "--create", "--open"])
            .args(["--memory", "32MiB", "--config", "server.toml"])
            .args(["--listen", "127.0.0.1:0", "--port-file", "port"])
            .env("DISPLAY", ":77")
            .env("PATH", format!("{}:{path}", folder.join("bin").display()))
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        Self {
            child,
            folder: folder.to_path_buf(),
        }
    }

    /// Returns the text of a file, once it exists.
    fn wait(&self, name: &str) -> String {
        eventually(|| {
            let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            (!text.is_empty())
                .then_some(text)
                .ok_or_else(|| format!("no {name}: {}", self.log()))
        })
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }
}

/// Other users can read the process list, and some the journal.
#[test]
fn no_ticket_stands_in_a_list_of_processes_or_a_log() {
    let dir = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(dir.path(), "");
    let argv = console.wait("argv");
    let address = console.wait("port");
    assert!(
        argv.contains(&format!("http://{}/ ", address.trim())),
        "{argv}"
    );
    assert!(!argv.contains("ticket"), "{argv}");
    assert!(!console.log().contains("ticket"), "{}", console.log());
    drop(console);
    // If the kernel's user ids do not count, the browser is redirected by a page that only its user can read.
    let dir = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(dir.path(), "[access]\nloopback = \"off\"\n");
    let argv = console.wait("argv");
    let (_, page) = argv.trim().split_once("file://").unwrap();
    let mode = fs::metadata(page).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        fs::read_to_string(page)
            .unwrap()
            .contains("/#/enter?ticket=")
    );
    for seen in [&argv, &console.log()] {
        assert!(!seen.contains("ticket="), "{seen}");
    }
}

fn request(at: &str, request: &str, header: &str, body: &str) -> (u16, String, Json) {
    let mut stream = TcpStream::connect(at).unwrap();
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{header}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let json = serde_json::from_str(body).unwrap();
    (status, head.to_owned(), json)
}

#[test]
fn sessions_are_listed_and_ended_from_the_folder_and_over_the_network() {
    let dir = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(dir.path(), "[access]\nloopback = \"socket\"\n");
    let at = console.wait("port").trim().to_owned();
    let said = |args: &[&str]| {
        let out = run(dir.path(), args);
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
        text(&out.stdout)
    };
    let token = said(&["grant", "lab.esker", "--token", "--role", "read"]);
    let bearer = format!("authorization: Bearer {}", token.trim());
    let ticket = eventually(|| {
        let (status, _, made) = request(&at, "POST /api/v1/session/ticket", &bearer, "");
        if status == 200 {
            Ok(made["ticket"].clone())
        } else {
            Err(made)
        }
    });
    let enter = json!({ "ticket": ticket }).to_string();
    let (status, head, _) = request(&at, "POST /api/v1/session", "accept: */*", &enter);
    assert_eq!(status, 200, "{head}");
    let head = head.to_ascii_lowercase();
    let cookie = head.split("set-cookie: ").nth(1).unwrap();
    let cookie = format!("cookie: {}", cookie.split(';').next().unwrap());
    assert_eq!(request(&at, "GET /api/v1/stats", &cookie, "").0, 200);
    let list = said(&["grant", "lab.esker", "--list", "--format", "json"]);
    let id = list.split("session:").nth(1).unwrap();
    let id = format!("session:{}", id.get(..12).unwrap());
    assert!(list.contains("read") && list.contains("console"), "{list}");
    said(&["revoke", "lab.esker", "--key", &id]);
    assert_eq!(request(&at, "GET /api/v1/stats", &cookie, "").0, 401);
    let again = run(dir.path(), &["revoke", "lab.esker", "--key", &id]);
    let again = text(&again.stderr);
    assert!(again.contains("there is no session"), "{again}");
    assert!(!said(&["grant", "lab.esker", "--list"]).contains("session:"));
    drop(console);
    let gone = run(dir.path(), &["revoke", "lab.esker", "--key", &id]);
    let gone = text(&gone.stderr);
    assert!(gone.contains("sessions end with their server"), "{gone}");
}
