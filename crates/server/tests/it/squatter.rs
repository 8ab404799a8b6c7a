//! Another user of this machine listens at a port where a server is expected: clients send nothing before the server has proved that it
//! has the server's key.

use esker::OpenOptions;
use esker_rpc::Address;
use esker_rpc::http::{Endpoint, RequestBody};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};

/// User id without rights to the database.
const EVE: u32 = 1002;

/// Listens and prints the first bytes of each connection in hexadecimal; prints nothing for a silent connection.
const PROGRAM: &str = "
import socket
s = socket.socket()
s.bind(('127.0.0.1', 0))
s.listen()
print(s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept()
    c.settimeout(60)
    try:
        print('>' + c.recv(4).hex(), flush=True)
    except OSError:
        print('>', flush=True)
    c.close()
";

struct Squatter {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    target: String,
}

impl Drop for Squatter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Squatter {
    fn start(user: u32) -> Option<Self> {
        let child = Command::new("python3")
            .args(["-c", PROGRAM])
            .uid(user)
            .gid(user)
            .current_dir("/")
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("skipped: this is not root, or there is no python3");
            return None;
        };
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap();
        let target = format!("esker://127.0.0.1:{port}");
        Some(Self {
            child,
            lines,
            target,
        })
    }

    /// First bytes of the next connection that sends something.
    fn heard(&mut self) -> String {
        let mut said = self.lines.by_ref().map(Result::unwrap);
        said.find(|line| line.len() > 1).unwrap()
    }
}

/// First bytes of TLS and of HTTP/2.
const TLS: &str = ">1603";
const PLAIN: &str = ">50524920";

fn open(target: &str) -> String {
    let opened = OpenOptions::new().open(target);
    opened.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn nothing_is_said_to_another_users_server_before_it_proves_itself() {
    let Some(mut squatter) = Squatter::start(EVE) else {
        return;
    };
    let target = format!("{}?timeout=5s", squatter.target);
    open(&target);
    let heard = squatter.heard();
    assert!(heard.starts_with(TLS), "{heard}");
    // Requests over HTTP likewise send nothing.
    let place = Endpoint::from(&Address::parse(&target).unwrap());
    let never = || false;
    let asked = place.request(
        "GET",
        "/api/v1/stats",
        &[],
        RequestBody::Nothing,
        &never,
        None,
    );
    assert!(asked.is_err());
    let heard = squatter.heard();
    assert!(heard.starts_with(TLS), "{heard}");
    // A client may trust that user explicitly.
    open(&format!("{target}&plain=on"));
    let heard = squatter.heard();
    assert!(heard.starts_with(PLAIN), "{heard}");
}

#[test]
fn an_own_server_is_asked_as_it_was() {
    let Some(mut own) = Squatter::start(esker_access::peer::own_user()) else {
        return;
    };
    open(&format!("{}?timeout=5s", own.target));
    let heard = own.heard();
    assert!(heard.starts_with(PLAIN), "{heard}");
}
