//! Checks of the access that other users have to a database's folder, to the folders above it and to a spool.

use super::{Finding, State};
use esker_terminal::units::counted;
use std::fs::{self, Metadata};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Mode bits. A user who may search a folder can read its files with known names; those of a store are known.
const OTHERS: u32 = 0o001;
const GROUP: u32 = 0o010;
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const STICKY: u32 = 0o1000;
/// Files with secrets.
const SECRETS: [&str; 2] = ["host_key", "access_tokens"];
/// Subfolder that other users may search in order to attach; it has no data.
const OWNER: &str = "owner";
/// Timeout of connections, so that a slow port does not delay the other checks.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of an answer of etcd, in bytes.
const ANSWER_BYTES: u64 = 4_096;

/// Whether a folder has a database, or those of a cluster.
pub(super) fn is_database(folder: &Path) -> bool {
    ["FORMAT", esker::CLUSTER_FILE]
        .iter()
        .any(|name| folder.join(name).is_file())
}

fn mode(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o7777
}

fn shell_quoted(path: &Path) -> String {
    // The path is quoted as one word of a shell.
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@".contains(c);
    if text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

pub(super) fn check(folder: &Path, out: &mut Vec<Finding>) {
    let failed = |e: std::io::Error| {
        let found = format!("{}: {e}", folder.display());
        Finding::wrong("folder", found, "give this user the right to read it")
    };
    let (folder, metadata) = match folder
        .canonicalize()
        .and_then(|folder| fs::metadata(&folder).map(|m| (folder, m)))
    {
        Ok(found) => found,
        Err(e) => return out.push(failed(e)),
    };
    let before = out.len();
    check_owner(&folder, &metadata, out);
    check_parents(&folder, metadata.uid(), out);
    check_readers(&folder, &metadata, out);
    check_secrets(&folder, out);
    check_etcd(&folder, out);
    if out.len() == before {
        let found = format!("{}: mode {:o}", folder.display(), mode(&metadata));
        out.push(Finding::fine("folder", found));
    }
}

/// Checks the owner of the folder and the users who may write to it.
fn check_owner(folder: &Path, metadata: &Metadata, out: &mut Vec<Finding>) {
    let (own, owner) = (rustix::process::geteuid().as_raw(), metadata.uid());
    let place = shell_quoted(folder);
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    if overflow.trim().parse() == Ok(owner) {
        out.push(Finding::open(
            "folder",
            State::Wrong,
            format!("{place} belongs to user {owner}, which stands for every user that a container does not know"),
            "all of them would be its owner to a server, and may do everything",
            "give the folder to a user that is known where it is served (chown), or serve it outside of the container",
        ));
    } else if ![own, 0].contains(&owner) {
        out.push(Finding::open(
            "folder",
            State::Note,
            format!("{place} belongs to user {owner}"),
            "its owner can change everything in it, and request anything from a process of yours that has it open",
            format!("if you do not trust that user, work with a copy: esker backup {place} COPY"),
        ));
    }
    let mode = mode(metadata);
    if mode & OTHERS_WRITE != 0 {
        out.push(Finding::open(
            "folder",
            State::Wrong,
            format!("{place}: mode {mode:o}"),
            "every user of this machine may replace what is in it, rights included",
            format!("chmod o-w {place}"),
        ));
    } else if mode & GROUP_WRITES != 0 {
        out.push(Finding::open(
            "folder",
            State::Warning,
            format!("{place}: mode {mode:o}, group {}", metadata.gid()),
            "every member of the group may replace what is in it, rights included",
            format!("chmod g-w {place}, unless all of them are to have all rights"),
        ));
    }
}

/// Checks which users may replace the folder through its parent folders.
fn check_parents(folder: &Path, owner: u32, out: &mut Vec<Finding>) {
    let own = rustix::process::geteuid().as_raw();
    for parent in folder.ancestors().skip(1) {
        let Ok(metadata) = fs::metadata(parent) else {
            continue;
        };
        let (mode, place) = (mode(&metadata), shell_quoted(parent));
        let why = |who: &str| {
            format!(
                "{who} may put another folder in the place of the database, with rights of their own in it"
            )
        };
        if ![own, owner, 0].contains(&metadata.uid()) {
            out.push(Finding::open(
                "parents",
                State::Warning,
                format!("{place} belongs to user {}", metadata.uid()),
                why("that user"),
                "move the database to a folder of yours, if you do not trust that user",
            ));
        }
        if mode & STICKY != 0 {
            continue;
        }
        if mode & OTHERS_WRITE != 0 {
            out.push(Finding::open(
                "parents",
                State::Wrong,
                format!("{place}: mode {mode:o}"),
                why("every user of this machine"),
                format!("chmod o-w {place}, or chmod +t {place}"),
            ));
        } else if mode & GROUP_WRITES != 0 {
            out.push(Finding::open(
                "parents",
                State::Warning,
                format!("{place}: mode {mode:o}, group {}", metadata.gid()),
                why("every member of the group"),
                format!("chmod +t {place}, or move the database to a folder of yours"),
            ));
        }
    }
}

/// Whether all users can reach a folder through the folders above it.
fn is_reachable_by_all(folder: &Path) -> bool {
    let lets = |path: &Path| fs::metadata(path).is_ok_and(|m| m.mode() & 0o001 != 0);
    folder.ancestors().skip(1).all(lets)
}

/// Checks which users may read the stored data.
fn check_readers(folder: &Path, metadata: &Metadata, out: &mut Vec<Finding>) {
    let place = shell_quoted(folder);
    let inside = |bits: u32| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|e| e.file_name() != OWNER)
            .filter(|e| {
                let metadata = e.metadata();
                metadata.is_ok_and(|m| m.is_dir() && m.mode() & bits != 0)
            })
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let why = |who: &str| {
        format!(
            "{who} read what is stored in it, past the permissions of files, objects and graphs"
        )
    };
    let open = if metadata.mode() & 0o001 == 0 || !is_reachable_by_all(folder) {
        Vec::new()
    } else {
        inside(OTHERS)
    };
    if !open.is_empty() {
        let all: Vec<String> = open.iter().map(|n| shell_quoted(&folder.join(n))).collect();
        out.push(Finding::open(
            "store",
            State::Wrong,
            format!("{place}: others may read {}", open.join(", ")),
            why("all users of this machine"),
            format!("chmod go-rwx {}; or chmod 700 {place}", all.join(" ")),
        ));
        return;
    }
    let open = if metadata.mode() & 0o010 == 0 {
        Vec::new()
    } else {
        inside(GROUP)
    };
    if !open.is_empty() {
        let all: Vec<String> = open.iter().map(|n| shell_quoted(&folder.join(n))).collect();
        let group = metadata.gid();
        out.push(Finding::open(
            "store",
            State::Warning,
            format!("{place}: group {group} may read {}", open.join(", ")),
            why("the members of the group"),
            format!(
                "chmod go-rwx {}; they may attach nevertheless",
                all.join(" ")
            ),
        ));
    }
}

fn check_secrets(folder: &Path, out: &mut Vec<Finding>) {
    for name in SECRETS {
        let path = folder.join(name);
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        let mode = mode(&metadata);
        let open_to_others = mode & 0o077 != 0;
        if !open_to_others {
            continue;
        }
        let place = shell_quoted(&path);
        out.push(Finding::open(
            "secrets",
            State::Wrong,
            format!("{place}: mode {mode:o}"),
            "anyone who reads or writes it can impersonate the server, or guess and make tokens",
            format!("chmod 600 {place}; if others may have read it, remove it and give clients the new one"),
        ));
    }
}

/// Checks which users may write to the etcd of `esker cluster up`.
fn check_etcd(folder: &Path, out: &mut Vec<Finding>) {
    let Ok(url) = fs::read_to_string(folder.join("etcd").join("url")) else {
        return;
    };
    let url = url.trim();
    let Some(address) = url.strip_prefix("http://") else {
        return out.push(Finding::fine("etcd", url));
    };
    let why = "every user of this machine may change which server has which part of the cluster";
    let remedy = "start the cluster again with this release (esker cluster down, then up): its etcd then answers only its owner";
    let address: Result<SocketAddr, _> = address.trim_end_matches('/').parse();
    match address.map(answers_without_credentials) {
        Ok(Some(true)) => out.push(Finding::open(
            "etcd",
            State::Wrong,
            format!("{url} answers without authentication"),
            why,
            remedy,
        )),
        Ok(Some(false)) => out.push(Finding::fine(
            "etcd",
            format!("{url} requires authentication"),
        )),
        Ok(None) | Err(_) => out.push(Finding::open(
            "etcd",
            State::Warning,
            format!("{url} does not answer now; when it runs, it is used without encryption"),
            why,
            remedy,
        )),
    }
}

/// Whether etcd at an address answers a request without credentials; `None` if nothing answers there.
fn answers_without_credentials(address: SocketAddr) -> Option<bool> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let body = r#"{"key":"AA==","limit":"1"}"#;
    let ask = format!(
        "POST /v3/kv/range HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(ask.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // The part received by then is enough: the first line has the status.
    let _ = stream.take(ANSWER_BYTES).read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split_ascii_whitespace().nth(1)?;
    Some(status == "200")
}

/// Checks which users may read the waiting runs of a spool, and add runs to it.
pub(super) fn spool(folder: &Path, out: &mut Vec<Finding>) {
    let Ok(metadata) = fs::symlink_metadata(folder) else {
        return;
    };
    let own = rustix::process::geteuid().as_raw();
    let (mode, place) = (mode(&metadata), shell_quoted(folder));
    if ![own, 0].contains(&metadata.uid()) && mode & GROUP_WRITES == 0 {
        out.push(Finding::open(
            "spool-mode",
            State::Wrong,
            format!("{place} belongs to user {}", metadata.uid()),
            "that user reads and replaces the runs that you leave there",
            "name a folder of your own: --spool DIR or $ESKER_SPOOL",
        ));
    }
    if mode & OTHERS_WRITE != 0 {
        out.push(Finding::open(
            "spool-mode",
            State::Wrong,
            format!("{place}: mode {mode:o}"),
            "every user of this machine may leave runs there, and remove those of others",
            format!("chmod o-w {place}"),
        ));
    } else if mode & GROUP_WRITES != 0 {
        out.push(Finding::open(
            "spool-mode",
            State::Note,
            format!("{place}: mode {mode:o}, group {}", metadata.gid()),
            "members of the group leave runs there; a server merges each user's own runs",
            format!("chmod g-w {place}, unless that is meant"),
        ));
    }
    let open: Vec<PathBuf> = match metadata.mode() & 0o001 {
        0 => Vec::new(),
        _ => readable(folder),
    };
    if let Some(first) = open.first() {
        out.push(Finding::open(
            "spool-mode",
            State::Warning,
            format!(
                "{} be read by all, {} among them",
                counted(open.len() as u64, "file may", "files may"),
                shell_quoted(first)
            ),
            "a run says its command, its arguments and its environment",
            format!("chmod 700 {place}; or chmod o-r {place}/*"),
        ));
    }
}

/// Returns the files in a folder that all users may read.
fn readable(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|e| {
            let metadata = e.metadata();
            metadata.is_ok_and(|m| m.is_file() && m.mode() & 0o004 != 0)
        })
        .map(|e| e.path())
        .collect();
    found.sort();
    found
}
