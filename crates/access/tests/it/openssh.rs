//! Keys of all kinds that OpenSSH makes, in files and in an agent.

use esker_access::known_hosts::{HostKeyStatus, KnownHosts};
use esker_access::{HostKey, Identities, fingerprint, proof};
use esker_testkit::wait::wait_until;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Whether OpenSSH is installed; prints a message if not.
pub(crate) fn openssh() -> bool {
    let there = Command::new("ssh-keygen").arg("-?").output().is_ok();
    if !there {
        println!("skipped: OpenSSH's ssh-keygen is not installed");
    }
    there
}

pub(crate) fn keygen(arguments: &[&str], path: &Path) -> PathBuf {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-C", "ann@lab"])
        .args(arguments)
        .arg("-f")
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    path.to_path_buf()
}

/// A running `ssh-agent`, ended when dropped.
pub(crate) struct Agent {
    process: Child,
    pub(crate) socket: PathBuf,
}

impl Agent {
    pub(crate) fn start(folder: &Path) -> Self {
        let socket = folder.join("agent");
        let process = Command::new("ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(&socket)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the agent does not start", || socket.exists());
        Self { process, socket }
    }

    /// Adds a key to the agent; the passphrase is `secret` where there is one.
    pub(crate) fn add(&self, folder: &Path, key: &Path) {
        let ask = folder.join("ask");
        std::fs::write(&ask, "#!/bin/sh\necho secret\n").unwrap();
        std::fs::set_permissions(&ask, std::fs::Permissions::from_mode(0o700)).unwrap();
        let added = Command::new("ssh-add")
            .arg(key)
            .env("SSH_AUTH_SOCK", &self.socket)
            .env("SSH_ASKPASS", &ask)
            .env("SSH_ASKPASS_REQUIRE", "force")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            added.status.success(),
            "{}",
            String::from_utf8_lossy(&added.stderr)
        );
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Proves every key on one connection, and checks that the proof is invalid on another.
fn prove_all(identities: &Identities) {
    for identity in &identities.keys {
        let signature = identity.prove(&[9; 32]).unwrap();
        let text = proof::to_text(&signature).unwrap();
        let kind = identity.public.algorithm();
        let proved = proof::check(text.as_bytes(), &[9; 32]);
        assert_eq!(proved.as_ref(), Ok(identity.public.key_data()), "{kind}");
        assert!(proof::check(text.as_bytes(), &[8; 32]).is_err(), "{kind}");
    }
}

const KINDS: [(&str, &[&str]); 5] = [
    ("id_ed25519", &["-t", "ed25519", "-N", ""]),
    ("id_ecdsa", &["-t", "ecdsa", "-b", "256", "-N", ""]),
    ("wide", &["-t", "ecdsa", "-b", "384", "-N", ""]),
    ("id_rsa", &["-t", "rsa", "-b", "2048", "-N", ""]),
    ("old", &["-t", "rsa", "-b", "2048", "-N", "", "-m", "PEM"]),
];

#[test]
fn keys_in_files_prove_a_connection() {
    if !openssh() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, arguments) in KINDS {
        let path = keygen(arguments, &dir.path().join(name));
        let identities = Identities::gather(Some(&path), None, None).unwrap();
        assert_eq!(identities.keys.len(), 1, "{name}");
        prove_all(&identities);
    }
    // If no file is named, the default names are tried in their default order.
    let found = Identities::gather(None, None, Some(dir.path())).unwrap();
    let kinds: Vec<String> = found
        .keys
        .iter()
        .map(|k| k.public.algorithm().to_string())
        .collect();
    assert_eq!(kinds, ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"]);
    assert!(found.in_words().contains("SHA256:"));
}

#[test]
fn keys_in_an_agent_prove_a_connection() {
    if !openssh() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    for (name, arguments) in KINDS {
        let path = keygen(arguments, &dir.path().join(name));
        agent.add(dir.path(), &path);
        std::fs::remove_file(&path).unwrap();
        // The public half selects the key of the agent.
        let public = path.with_extension("pub");
        let named = Identities::gather(Some(&public), Some(&agent.socket), None).unwrap();
        prove_all(&named);
    }
    let all = Identities::gather(None, Some(&agent.socket), Some(dir.path())).unwrap();
    assert_eq!(all.keys.len(), KINDS.len());
    prove_all(&all);
}

#[test]
fn a_key_with_a_passphrase_needs_the_agent() {
    if !openssh() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = keygen(
        &["-t", "ed25519", "-N", "secret"],
        &dir.path().join("id_ed25519"),
    );
    let refused = Identities::gather(Some(&path), None, None).unwrap_err();
    assert!(refused.to_string().contains("ssh-add"), "{refused}");
    let none = Identities::gather(None, None, Some(dir.path())).unwrap();
    assert!(none.keys.is_empty());
    assert!(
        none.in_words().contains("passphrase"),
        "{}",
        none.in_words()
    );
    let agent = Agent::start(dir.path());
    agent.add(dir.path(), &path);
    let found = Identities::gather(Some(&path), Some(&agent.socket), None).unwrap();
    prove_all(&found);
    let found = Identities::gather(None, Some(&agent.socket), Some(dir.path())).unwrap();
    assert_eq!((found.keys.len(), found.notes.len()), (1, 0));
}

#[test]
fn kinds_that_cannot_be_checked_are_refused_with_words() {
    if !openssh() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = keygen(
        &["-t", "ecdsa", "-b", "521", "-N", ""],
        &dir.path().join("big"),
    );
    let refused = Identities::gather(Some(&path), None, None).unwrap_err();
    assert!(refused.to_string().contains("nistp521"), "{refused}");
    let gone = Identities::gather(Some(&dir.path().join("none")), None, None).unwrap_err();
    assert!(gone.to_string().contains("none"), "{gone}");
}

#[test]
fn a_host_key_is_one_of_openssh() {
    if !openssh() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("host_key");
    let made = HostKey::open_or_create(&path).unwrap();
    let list = |path: &Path| {
        let out = Command::new("ssh-keygen")
            .arg("-lf")
            .arg(path)
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    for path in [path.clone(), path.with_extension("pub")] {
        assert!(list(&path).contains(&made.fingerprint()), "{}", list(&path));
    }
    // OpenSSH reads the generated key, too.
    let path = keygen(&["-t", "ed25519", "-N", ""], &dir.path().join("theirs"));
    let read = HostKey::open_or_create(&path).unwrap();
    assert!(list(&path).contains(&read.fingerprint()));
    let rsa = keygen(
        &["-t", "rsa", "-b", "2048", "-N", ""],
        &dir.path().join("rsa"),
    );
    let refused = HostKey::open_or_create(&rsa).unwrap_err().to_string();
    assert!(refused.contains("expected Ed25519"), "{refused}");
    let sealed = keygen(
        &["-t", "ed25519", "-N", "secret"],
        &dir.path().join("sealed"),
    );
    let refused = HostKey::open_or_create(&sealed).unwrap_err().to_string();
    assert!(refused.contains("passphrase"), "{refused}");
}

#[test]
fn names_that_openssh_hashed_are_found() {
    if !openssh() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("known_hosts");
    let known = KnownHosts::in_files(vec![path.clone()]);
    let key = HostKey::generate().unwrap();
    known
        .accept("lab.example.org", 7400, key.public().key_data(), true)
        .unwrap();
    let hashed = Command::new("ssh-keygen")
        .args(["-q", "-H", "-f"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(hashed.status.success());
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("|1|"), "{text}");
    let look = |host: &str, port| known.lookup(host, port, key.public().key_data()).unwrap();
    assert_eq!(look("lab.example.org", 7400), HostKeyStatus::Listed);
    assert_eq!(look("lab.example.org", 7401), HostKeyStatus::New);
    let other = HostKey::generate().unwrap();
    let refused = known
        .accept("lab.example.org", 7400, other.public().key_data(), true)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains(&fingerprint(key.public().key_data())),
        "{refused}"
    );
}
