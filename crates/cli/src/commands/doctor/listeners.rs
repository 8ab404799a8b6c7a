//! Checks of the Esker processes that listen on this machine: their clients, and the rights that an attacker would gain by taking them
//! over.

use super::{Finding, State};
use esker_server::Settings;
use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// `TCP_LISTEN` in the kernel's list.
const LISTENING: &str = "0A";

/// Kind of an Esker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessKind {
    Server,
    Tier,
    Worker,
}

/// A process that listens on TCP.
struct Listener {
    pid: u32,
    kind: ProcessKind,
    /// Arguments after the name of the command.
    words: Vec<String>,
    /// Working directory at the start.
    folder: PathBuf,
    addresses: Vec<SocketAddr>,
}

/// Returns the kind of command and the arguments after its name.
fn command(words: &[String]) -> Option<(ProcessKind, &[String])> {
    let program = Path::new(words.first()?).file_name()?.as_bytes();
    if program != b"esker" {
        return None;
    }
    // Global options may precede the command.
    for (at, word) in words.iter().enumerate().skip(1) {
        let next = words.get(at + 1).map(String::as_str);
        let (kind, taken) = match (word.as_str(), next) {
            ("site", Some("serve")) => (ProcessKind::Tier, 2),
            ("rdf", Some("worker")) => (ProcessKind::Worker, 2),
            ("serve", _) => (ProcessKind::Server, 1),
            _ => continue,
        };
        return Some((kind, words.get(at + taken..).unwrap_or_default()));
    }
    None
}

/// Parses an address of the kernel's list: each four bytes as a number in this machine's byte order, in hexadecimal digits.
#[allow(
    clippy::host_endian_bytes,
    reason = "the kernel prints the bytes as it has them"
)]
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..ip.len()).step_by(8) {
        let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip: IpAddr = match bytes.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
        16 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Returns the listening sockets of a kernel list, by inode.
fn listening(list: &str) -> HashMap<u64, SocketAddr> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, near, _, state, _, _, _, _, _, inode, ..] = words.as_slice() else {
            return None;
        };
        let listens = *state == LISTENING;
        listens.then_some((inode.parse().ok()?, address(near)?))
    };
    list.lines().filter_map(line).collect()
}

/// Returns the inodes of a process's open sockets.
fn sockets(pid: u32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let entries = entries.into_iter().flatten().flatten();
    let inode = |link: PathBuf| {
        let text = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        text.parse().ok()
    };
    entries
        .filter_map(|e| inode(fs::read_link(e.path()).ok()?))
        .collect()
}

/// Returns the listening Esker processes that this user can see.
fn all() -> Vec<Listener> {
    let mut open = HashMap::new();
    for list in ["/proc/net/tcp", "/proc/net/tcp6"] {
        open.extend(listening(&fs::read_to_string(list).unwrap_or_default()));
    }
    let own = rustix::process::geteuid().as_raw();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        if entry.metadata().map(|m| m.uid()).ok() != Some(own) {
            continue;
        }
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<String> = line
            .split(|b| *b == 0)
            .map(|w| String::from_utf8_lossy(w).into_owned())
            .collect();
        let Some((kind, words)) = command(&words) else {
            continue;
        };
        let addresses: Vec<_> = sockets(pid)
            .into_iter()
            .filter_map(|inode| open.get(&inode).copied())
            .collect();
        found.push(Listener {
            pid,
            kind,
            words: words.to_vec(),
            folder: fs::read_link(entry.path().join("cwd")).unwrap_or_default(),
            addresses,
        });
    }
    found.sort_by_key(|l| l.pid);
    found
}

impl Listener {
    /// Returns the value of an option, in either form.
    fn option(&self, name: &str) -> Option<&str> {
        let mut words = self.words.iter();
        while let Some(word) = words.next() {
            if word == name {
                return words.next().map(String::as_str);
            }
            if let Some(value) = word.strip_prefix(name).and_then(|w| w.strip_prefix('=')) {
                return Some(value);
            }
        }
        None
    }

    /// Returns the value of an option as a path.
    fn file(&self, name: &str) -> Option<PathBuf> {
        self.option(name).map(|f| self.folder.join(f))
    }

    /// Whether the process has a certificate from its configuration.
    fn has_certificate(&self) -> bool {
        let configured = || {
            let settings = Settings::from_file(&self.file("--config")?).ok()?;
            settings.tls
        };
        self.option("--tls-certificate").is_some() || configured().is_some()
    }

    /// Returns the addresses that other machines can reach, as text.
    fn reached(&self) -> String {
        let addresses = self.addresses.iter();
        let reached = addresses.filter(|a| !a.ip().is_loopback());
        let all: Vec<String> = reached.map(ToString::to_string).collect();
        all.join(", ")
    }
}

/// Checks the process that serves a folder, and this user's site tiers and workers.
pub(super) fn check(storage: Option<&Path>, owner: Option<u32>, out: &mut Vec<Finding>) {
    let all = all();
    for listener in &all {
        match listener.kind {
            ProcessKind::Server if Some(listener.pid) == owner => server(listener, storage, out),
            ProcessKind::Server => {}
            ProcessKind::Tier | ProcessKind::Worker => helper(listener, out),
        }
    }
    if let Some(pid) = owner {
        sandbox(pid, out);
    }
}

fn server(listener: &Listener, storage: Option<&Path>, out: &mut Vec<Finding>) {
    let reached = listener.reached();
    let pid = listener.pid;
    if reached.is_empty() {
        let found = format!("process {pid} is reached from this machine alone");
        out.push(Finding::fine("listener", found));
    } else if listener.has_certificate() {
        let found = format!("process {pid} at {reached} has a certificate");
        out.push(Finding::fine("listener", found));
    } else {
        out.push(Finding::open(
            "listener",
            State::Warning,
            format!("process {pid} is reached at {reached}, and has no certificate but that of its own key"),
            "browsers and curl cannot tell who answers; a token that is sent unencrypted by mistake can be read on the way",
            "esker serve … --tls-certificate FILE --tls-key FILE; or --listen 127.0.0.1:7400, and ssh -L from elsewhere",
        ));
    }
    if !listener.addresses.is_empty() {
        let owner = storage.and_then(|s| fs::metadata(s).ok()).map(|m| m.uid());
        let owner = owner.map_or("the owner".to_owned(), |uid| format!("user {uid}"));
        out.push(Finding::open(
            "loopback",
            State::Note,
            format!("processes of {owner} and of root are admins over loopback, without a key"),
            "a proxy that one of them runs (nginx, kubectl port-forward, a container with this machine's network) lends that to anyone it lets in",
            "run no proxy to this port as one of them; see docs/book/access.md",
        ));
    }
    for spool in listener.words.windows(2) {
        if let [option, folder] = spool
            && option == "--spool"
        {
            super::folder::spool(&listener.folder.join(folder), out);
        }
    }
}

/// Checks a tier of the site cache or a worker, which acts with the rights of its user.
fn helper(listener: &Listener, out: &mut Vec<Finding>) {
    let (part, what, why) = match listener.kind {
        ProcessKind::Tier => (
            "site",
            "a site tier",
            "anyone who is let in uses origins with the keys and passwords of its user",
        ),
        _ => (
            "workers",
            "a worker of RDF",
            "anyone who is let in can read all of its part of the data, whatever the rights of graphs",
        ),
    };
    let pid = listener.pid;
    let reached = listener.reached();
    if !reached.is_empty() {
        out.push(Finding::open(
            part,
            State::Warning,
            format!("{what} (process {pid}) is reached at {reached}"),
            format!("other machines reach it, too; {why}"),
            "let it listen on a Unix socket (see docs/book/access.md), or on 127.0.0.1",
        ));
    } else if let Some(address) = listener.addresses.first() {
        out.push(Finding::open(
            part,
            State::Note,
            format!("{what} (process {pid}) is reached at {address}"),
            format!("processes of this machine reach it; {why}"),
            "let it listen on a Unix socket (see docs/book/access.md)",
        ));
    }
    let secret = listener.file("--secret-file");
    if let Some(secret) = secret
        && let Ok(metadata) = fs::metadata(&secret)
        && metadata.mode() & 0o077 != 0
    {
        out.push(Finding::open(
            part,
            State::Wrong,
            format!("{}: mode {:o}", secret.display(), metadata.mode() & 0o7777),
            "anyone who reads the secret can act as a worker's coordinator",
            format!("chmod 600 {}; and make a new secret", secret.display()),
        ));
    }
}

/// Checks whether the process that has a database open has given up the rights that it does not need.
fn sandbox(pid: u32, out: &mut Vec<Finding>) {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return;
    };
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name));
        line.map_or("", str::trim)
    };
    if field("Seccomp:") == "2" && field("NoNewPrivs:") == "1" {
        let found = format!("process {pid} has given up what it does not need");
        return out.push(Finding::fine("sandbox", found));
    }
    let kernel = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let landlock = if kernel.split(',').any(|l| l.trim() == "landlock") {
        "this kernel has Landlock"
    } else {
        "this kernel shows no Landlock"
    };
    out.push(Finding::open(
        "sandbox",
        State::Note,
        format!("process {pid} may start programs and open all files of its user; {landlock}"),
        "anyone who took over that process could do the same",
        "serve it with esker serve, without --no-sandbox; docs/book/server.md says what that limits",
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_listen_are_told_from_others() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                    0: 0100007F:1CE8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 123 1 0 100 0 0 10 0\n   \
                    1: 0100007F:1CE8 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 124 1 0 20 4 30 10 -1\n";
        let found = listening(list);
        if cfg!(target_endian = "little") {
            assert_eq!(
                found,
                HashMap::from([(123, "127.0.0.1:7400".parse().unwrap())])
            );
            assert_eq!(
                address("00000000000000000000000001000000:0050"),
                Some("[::1]:80".parse().unwrap())
            );
        }
        assert_eq!(address("0100007F"), None);
        assert_eq!(address("01:01"), None);
    }

    #[test]
    fn commands_are_told_by_their_names() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(Into::into).collect() };
        let kind = |line: &str| command(&words(line)).map(|(kind, _)| kind);
        assert_eq!(
            kind("/usr/bin/esker serve lab.esker"),
            Some(ProcessKind::Server)
        );
        assert_eq!(
            kind("esker --quiet site serve site.toml"),
            Some(ProcessKind::Tier)
        );
        assert_eq!(
            kind("esker rdf worker x --listen y"),
            Some(ProcessKind::Worker)
        );
        assert_eq!(kind("esker ls lab.esker"), None);
        assert_eq!(kind("vim serve"), None);
        let line = words("esker serve lab.esker --tls-certificate=a --config b");
        let (kind, words) = command(&line).unwrap();
        let listener = Listener {
            pid: 1,
            kind,
            words: words.to_vec(),
            folder: "/x".into(),
            addresses: vec![
                "127.0.0.1:1".parse().unwrap(),
                "10.0.0.1:2".parse().unwrap(),
            ],
        };
        assert_eq!(listener.option("--tls-certificate"), Some("a"));
        assert_eq!(listener.file("--config"), Some("/x/b".into()));
        assert_eq!(listener.option("--listen"), None);
        assert_eq!(listener.reached(), "10.0.0.1:2");
    }
}
