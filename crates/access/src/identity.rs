//! The keys by which a client can prove who it is: those of the user's agent, then those in `~/.ssh`.

use crate::agent::Agent;
use crate::proof::{self, EXPORTER_BYTES};
use crate::{HostKey, crypto, fingerprint};
use esker_model::{Error, Result};
use ssh_key::public::KeyData;
use ssh_key::{PrivateKey, PublicKey, SshSig};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files of keys that are looked for in `~/.ssh`.
const FILES: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];
/// Keys that a client shows to a server.
pub const KEYS_MAX: usize = 16;

/// A key that can be signed with.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its public half, with a comment.
    pub public: PublicKey,
    from: Source,
}

#[derive(Debug, Clone)]
enum Source {
    /// An agent has it.
    Agent(PathBuf),
    /// It was read.
    Read(Box<PrivateKey>),
    /// It lies there, and OpenSSH's own program signs with it.
    Tool(PathBuf),
    /// It is a server's, of a cluster.
    Host(HostKey),
}

/// What a client has to show.
#[derive(Debug, Clone, Default)]
pub struct Identities {
    /// Keys, in the order in which they are tried.
    pub keys: Vec<Identity>,
    /// Why others cannot be used.
    pub notes: Vec<String>,
}

impl Identity {
    /// A server's own key, by which those of a cluster know each other.
    pub fn of_host(key: HostKey) -> Self {
        Self {
            public: key.public().clone(),
            from: Source::Host(key),
        }
    }

    /// Signs for a connection.
    pub fn prove(&self, exporter: &[u8; EXPORTER_BYTES]) -> Result<SshSig> {
        match &self.from {
            Source::Host(key) => key.prove(exporter),
            Source::Read(key) => {
                proof::sign_with(&self.public, exporter, |b| crypto::sign(key.key_data(), b))
            }
            Source::Agent(path) => proof::sign_with(&self.public, exporter, |bytes| {
                let mut agent = Agent::connect(path)?;
                agent.sign(self.public.key_data(), bytes).map(Some)
            }),
            Source::Tool(path) => by_tool(path, exporter),
        }
    }
}

/// Signs by `ssh-keygen -Y sign`, which knows all kinds of keys.
fn by_tool(path: &Path, exporter: &[u8; EXPORTER_BYTES]) -> Result<SshSig> {
    let failed = |why: &str| {
        Error::Target(format!(
            "`ssh-keygen` did not sign with the key in `{}`: {why}; add the key to an agent (`ssh-add {}`)",
            path.display(),
            path.display()
        ))
    };
    let child = Command::new("ssh-keygen")
        .args(["-Y", "sign", "-q", "-n", proof::NAMESPACE, "-f"])
        .arg(path)
        // It asks nobody for a passphrase.
        .env("SSH_ASKPASS", "false")
        .env("SSH_ASKPASS_REQUIRE", "force")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|e| failed(&e.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // What it does not read it says itself.
        let _ = stdin.write_all(&proof::unsigned(exporter));
    }
    let done = child
        .wait_with_output()
        .map_err(|e| failed(&e.to_string()))?;
    if !done.status.success() {
        return Err(failed(String::from_utf8_lossy(&done.stderr).trim()));
    }
    SshSig::from_pem(&done.stdout).map_err(|e| failed(&e.to_string()))
}

/// The public half that lies beside a private key.
fn beside(path: &Path) -> Option<PublicKey> {
    let mut name = path.file_name()?.to_owned();
    name.push(".pub");
    let text = std::fs::read_to_string(path.with_file_name(name)).ok()?;
    PublicKey::from_openssh(text.trim()).ok()
}

/// What a file of a key is good for.
enum InFile {
    Usable(Box<Identity>),
    /// Only somebody else has what belongs to it: an agent may.
    Sealed(PublicKey, String),
}

fn read(path: &Path) -> Result<InFile, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("`{}`: {e}", path.display()))?;
    let bytes = zeroize::Zeroizing::new(bytes);
    let usable = |key: &PublicKey| {
        crypto::usable(key.key_data()).map_err(|e| format!("`{}`: {e}", path.display()))
    };
    if let Some(public) = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|t| PublicKey::from_openssh(t.trim()).ok())
    {
        usable(&public)?;
        let why = format!(
            "`{}` is a public key, and no agent has its other half",
            path.display()
        );
        return Ok(InFile::Sealed(public, why));
    }
    let tool = |public: PublicKey| {
        usable(&public)?;
        let from = Source::Tool(path.to_path_buf());
        Ok(InFile::Usable(Box::new(Identity { public, from })))
    };
    match PrivateKey::from_openssh(&*bytes) {
        Ok(key) if key.is_encrypted() => {
            let mut public = key.public_key().clone();
            usable(&public)?;
            if let Some(named) = beside(path).filter(|k| k.key_data() == public.key_data()) {
                public = named;
            }
            let why = format!(
                "the key in `{}` is protected by a passphrase: add it to an agent (`ssh-add {}`)",
                path.display(),
                path.display()
            );
            Ok(InFile::Sealed(public, why))
        }
        Ok(key) if key.algorithm().is_rsa() => tool(key.public_key().clone()),
        Ok(key) => {
            let public = key.public_key().clone();
            usable(&public)?;
            let from = Source::Read(Box::new(key));
            Ok(InFile::Usable(Box::new(Identity { public, from })))
        }
        // Older forms, which OpenSSH's program reads.
        Err(e) => match beside(path) {
            Some(public) if bytes.starts_with(b"-----BEGIN ") => tool(public),
            _ => Err(format!("`{}` is no key of SSH: {e}", path.display())),
        },
    }
}

impl Identities {
    /// A server's own key.
    pub fn of_host(key: HostKey) -> Self {
        Self {
            keys: vec![Identity::of_host(key)],
            notes: Vec::new(),
        }
    }

    /// Those of this user: of the agent that `SSH_AUTH_SOCK` names, then those in `~/.ssh`; or only the one that is given.
    pub fn of_user(given: Option<&Path>) -> Result<Self> {
        let agent = crate::environment::variable("SSH_AUTH_SOCK");
        let home = crate::environment::variable("HOME");
        let folder = home.map(|h| PathBuf::from(h).join(".ssh"));
        Self::gather(
            given,
            agent.map(PathBuf::from).as_deref(),
            folder.as_deref(),
        )
    }

    /// The same, of that agent and from that folder.
    pub fn gather(
        given: Option<&Path>,
        agent: Option<&Path>,
        folder: Option<&Path>,
    ) -> Result<Self> {
        let mut all = Self::default();
        let mut held = Vec::new();
        if let Some(path) = agent {
            match Agent::connect(path).and_then(|mut agent| agent.keys()) {
                Ok(keys) => held = keys,
                Err(why) => all.notes.push(why),
            }
        }
        let by_agent = |public: PublicKey| Identity {
            public,
            from: Source::Agent(agent.map(Path::to_path_buf).unwrap_or_default()),
        };
        let has =
            |held: &[PublicKey], key: &KeyData| held.iter().find(|k| k.key_data() == key).cloned();
        if let Some(path) = given {
            match read(path).map_err(Error::Target)? {
                InFile::Usable(identity) => all.keys.push(*identity),
                InFile::Sealed(public, why) => match has(&held, public.key_data()) {
                    Some(key) => all.keys.push(by_agent(key)),
                    None => return Err(Error::Target(why)),
                },
            }
            return Ok(all);
        }
        all.keys.extend(held.iter().cloned().map(by_agent));
        for name in FILES {
            let Some(path) = folder.map(|f| f.join(name)).filter(|p| p.exists()) else {
                continue;
            };
            match read(&path) {
                Ok(InFile::Usable(identity)) => {
                    if has(&held, identity.public.key_data()).is_none() {
                        all.keys.push(*identity);
                    }
                }
                Ok(InFile::Sealed(public, why)) => {
                    if has(&held, public.key_data()).is_none() {
                        all.notes.push(why);
                    }
                }
                Err(why) => all.notes.push(why),
            }
        }
        all.keys.truncate(KEYS_MAX);
        Ok(all)
    }

    /// In words, for whoever is refused: the keys that there were, and why others were not used.
    pub fn in_words(&self) -> String {
        let keys: Vec<String> = self
            .keys
            .iter()
            .map(|k| {
                let print = fingerprint(k.public.key_data());
                format!("{print} {}", k.public.comment())
                    .trim_end()
                    .to_owned()
            })
            .collect();
        let mut text = if keys.is_empty() {
            "there is no key to show: make one by `ssh-keygen -t ed25519`, or name one (?key=FILE or ESKER_KEY)"
                .to_owned()
        } else {
            format!("shown: {}", keys.join(", "))
        };
        for note in &self.notes {
            text.push_str("; ");
            text.push_str(note);
        }
        text
    }
}
