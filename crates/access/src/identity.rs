//! Keys by which a client can prove its identity: those of the user's agent, then those in `~/.ssh`.

use crate::agent::{Agent, AgentKey};
use crate::certificate::UserCertificate;
use crate::proof::{self, EXPORTER_BYTES};
use crate::{HostKey, crypto, fingerprint};
use esker_model::{Error, Result};
use ssh_key::public::KeyData;
use ssh_key::{PrivateKey, PublicKey, SshSig};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Key files that are looked for in `~/.ssh`.
const FILES: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];
/// Maximum number of keys that a client offers to a server.
pub const KEYS_MAX: usize = 16;

/// A key that can sign proofs.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Public half with its comment.
    pub public: PublicKey,
    /// Certificate of the key that is offered instead of the key.
    pub certificate: Option<UserCertificate>,
    from: Signer,
}

#[derive(Debug, Clone)]
enum Signer {
    /// Key in an agent.
    Agent(PathBuf, Box<AgentKey>),
    /// Private key read from a file.
    Read(Box<PrivateKey>),
    /// Key file with which `ssh-keygen` signs.
    Tool(PathBuf),
    /// Host key of a cluster's server.
    Host(HostKey),
}

/// Keys that a client can offer.
#[derive(Debug, Clone, Default)]
pub struct Identities {
    /// Keys, in the order in which they are tried.
    pub keys: Vec<Identity>,
    /// Reasons why other keys cannot be used.
    pub notes: Vec<String>,
}

impl Identity {
    /// Returns the identity of a server's host key, by which servers of a cluster recognize each other.
    pub fn of_host(key: HostKey) -> Self {
        Self {
            public: key.public().clone(),
            certificate: None,
            from: Signer::Host(key),
        }
    }

    /// Returns the text by which a server is asked about the identity: that of its certificate or key.
    pub fn offer(&self) -> String {
        match &self.certificate {
            Some(certificate) => certificate.text(),
            None => self.public.to_openssh().unwrap_or_default(),
        }
    }

    fn of(public: PublicKey, from: Signer) -> Self {
        Self {
            public,
            certificate: None,
            from,
        }
    }

    fn with(&self, certificate: UserCertificate) -> Self {
        Self {
            certificate: Some(certificate),
            ..self.clone()
        }
    }

    /// Signs a proof for a connection.
    pub fn prove(&self, exporter: &[u8; EXPORTER_BYTES]) -> Result<SshSig> {
        match &self.from {
            Signer::Host(key) => key.prove(exporter),
            Signer::Read(key) => {
                proof::sign_with(&self.public, exporter, |b| crypto::sign(key.key_data(), b))
            }
            Signer::Agent(path, key) => proof::sign_with(&self.public, exporter, |bytes| {
                let mut agent = Agent::connect(path)?;
                agent.sign(key, bytes).map(Some)
            }),
            Signer::Tool(path) => by_tool(path, exporter),
        }
    }
}

/// Signs by `ssh-keygen -Y sign`, which supports all kinds of keys.
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
        // Prevents `ssh-keygen` from asking for a passphrase.
        .env("SSH_ASKPASS", "false")
        .env("SSH_ASKPASS_REQUIRE", "force")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|e| failed(&e.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If `ssh-keygen` stops reading, its exit status and stderr say why.
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

/// Reads the file beside a key file with that suffix.
fn read_neighbour(path: &Path, suffix: &str) -> Option<String> {
    let mut name = path.file_name()?.to_owned();
    name.push(suffix);
    std::fs::read_to_string(path.with_file_name(name)).ok()
}

/// Reads the public key file that belongs to a private key file.
fn public_key_file(path: &Path) -> Option<PublicKey> {
    PublicKey::from_openssh(read_neighbour(path, ".pub")?.trim()).ok()
}

/// Reads the certificate beside the file of a private or public key, if there is one; the error says why it cannot be used.
fn certificate_file(path: &Path) -> Option<Result<UserCertificate, String>> {
    let path = match path.extension() {
        Some(extension) if extension == "pub" => path.with_extension(""),
        _ => path.to_path_buf(),
    };
    let parsed = UserCertificate::parse(&read_neighbour(&path, "-cert.pub")?);
    Some(parsed.map_err(|why| format!("`{}-cert.pub`: {why}", path.display())))
}

/// Content of a key file.
enum KeyFile {
    Usable(Box<Identity>),
    /// Unusable from the file alone; an agent may have the private key.
    Sealed(PublicKey, String),
}

fn read(path: &Path) -> Result<KeyFile, String> {
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
            "`{}` is a public key, and no agent has its private key",
            path.display()
        );
        return Ok(KeyFile::Sealed(public, why));
    }
    let tool = |public: PublicKey| {
        usable(&public)?;
        let from = Signer::Tool(path.to_path_buf());
        Ok(KeyFile::Usable(Box::new(Identity::of(public, from))))
    };
    match PrivateKey::from_openssh(&*bytes) {
        Ok(key) if key.is_encrypted() => {
            let mut public = key.public_key().clone();
            usable(&public)?;
            if let Some(named) = public_key_file(path).filter(|k| k.key_data() == public.key_data())
            {
                public = named;
            }
            let why = format!(
                "the key in `{}` is protected by a passphrase: add it to an agent (`ssh-add {}`)",
                path.display(),
                path.display()
            );
            Ok(KeyFile::Sealed(public, why))
        }
        Ok(key) if key.algorithm().is_rsa() => tool(key.public_key().clone()),
        Ok(key) => {
            let public = key.public_key().clone();
            usable(&public)?;
            let from = Signer::Read(Box::new(key));
            Ok(KeyFile::Usable(Box::new(Identity::of(public, from))))
        }
        // Older formats, which `ssh-keygen` reads.
        Err(e) => match public_key_file(path) {
            Some(public) if bytes.starts_with(b"-----BEGIN ") => tool(public),
            _ => Err(format!("`{}` is not an SSH key: {e}", path.display())),
        },
    }
}

impl Identities {
    /// Returns the host key of a server as the only identity.
    pub fn of_host(key: HostKey) -> Self {
        Self {
            keys: vec![Identity::of_host(key)],
            notes: Vec::new(),
        }
    }

    /// Collects this user's keys: those of the agent at `SSH_AUTH_SOCK`, then those in `~/.ssh`; or only the key file `given`.
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

    /// Collects the keys of `agent` and in `folder`; or only the key file `given`.
    pub fn gather(
        given: Option<&Path>,
        agent: Option<&Path>,
        folder: Option<&Path>,
    ) -> Result<Self> {
        let mut all = Self::default();
        let mut agent_keys = Vec::new();
        if let Some(path) = agent {
            match Agent::connect(path).and_then(|mut agent| agent.keys()) {
                Ok(keys) => agent_keys = keys,
                Err(why) => all.notes.push(why),
            }
        }
        let by_agent = |key: AgentKey| Identity {
            public: key.public.clone(),
            certificate: key.certificate.clone(),
            from: Signer::Agent(
                agent.map(Path::to_path_buf).unwrap_or_default(),
                Box::new(key),
            ),
        };
        let has = |agent_keys: &[AgentKey], key: &KeyData| -> Vec<AgentKey> {
            let same = agent_keys.iter().filter(|k| k.public.key_data() == key);
            same.cloned().collect()
        };
        if let Some(path) = given {
            match read(path).map_err(Error::Target)? {
                KeyFile::Usable(identity) => all.keys.push(*identity),
                KeyFile::Sealed(public, why) => {
                    let named = has(&agent_keys, public.key_data());
                    if named.is_empty() {
                        return Err(Error::Target(why));
                    }
                    all.keys.extend(named.into_iter().map(by_agent));
                }
            }
            all.add_certificate(path);
            return Ok(all);
        }
        all.keys.extend(agent_keys.iter().cloned().map(by_agent));
        for name in FILES {
            let Some(path) = folder.map(|f| f.join(name)).filter(|p| p.exists()) else {
                continue;
            };
            match read(&path) {
                Ok(KeyFile::Usable(identity)) => {
                    if has(&agent_keys, identity.public.key_data()).is_empty() {
                        all.keys.push(*identity);
                    }
                }
                Ok(KeyFile::Sealed(public, why)) => {
                    if has(&agent_keys, public.key_data()).is_empty() {
                        all.notes.push(why);
                    }
                }
                Err(why) => all.notes.push(why),
            }
            all.add_certificate(&path);
        }
        all.keys.truncate(KEYS_MAX);
        Ok(all)
    }

    /// Adds an identity with the certificate beside a key file, before that of its key.
    fn add_certificate(&mut self, path: &Path) {
        let certificate = match certificate_file(path) {
            Some(Ok(certificate)) => certificate,
            Some(Err(why)) => return self.notes.push(why),
            None => return,
        };
        let mut known = self.keys.iter().filter_map(|k| k.certificate.as_ref());
        if known.any(|known| *known == certificate) {
            return;
        }
        let mut keys = self.keys.iter();
        if let Some(at) = keys.position(|k| k.public.key_data() == certificate.key())
            && let Some(certified) = self.keys.get(at).map(|key| key.with(certificate))
        {
            self.keys.insert(at, certified);
        }
    }

    /// Describes the keys that were offered and why others were not used, for an error message.
    pub fn in_words(&self) -> String {
        let keys: Vec<String> = self
            .keys
            .iter()
            .map(|k| {
                if let Some(certificate) = &k.certificate {
                    return certificate.description();
                }
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
