//! Client of an OpenSSH agent: lists its keys and requests signatures.
//! The protocol is draft-ietf-sshm-ssh-agent; each message is preceded by its length, then its kind.

use crate::certificate::UserCertificate;
use crate::crypto;
use crate::wire::{put, string};
use ssh_key::{PublicKey, Signature};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;
/// Flag that requests an RSA signature with SHA-512.
const RSA_SHA2_512: u32 = 4;

/// Maximum bytes of an agent's response, as OpenSSH bounds them.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Maximum number of keys taken from an agent.
const KEYS_MAX: usize = 64;
/// Timeout of one request; the user may have to confirm it or touch a hardware key.
const PATIENCE: Duration = Duration::from_mins(1);

/// A connection to an OpenSSH agent.
#[derive(Debug)]
pub(crate) struct Agent<S = UnixStream> {
    stream: S,
}

/// A key that an agent has.
#[derive(Debug, Clone)]
pub(crate) struct AgentKey {
    pub(crate) public: PublicKey,
    /// Certificate of the key, for an entry with one.
    pub(crate) certificate: Option<UserCertificate>,
}

impl AgentKey {
    fn parse(blob: &[u8], comment: &[u8]) -> Option<Self> {
        let (mut public, certificate) = if let Ok(public) = PublicKey::from_bytes(blob) {
            (public, None)
        } else {
            let certificate = UserCertificate::from_bytes(blob.to_vec()).ok()?;
            let public = PublicKey::from(certificate.key().clone());
            (public, Some(certificate))
        };
        public.set_comment(String::from_utf8_lossy(comment));
        crypto::usable(public.key_data()).ok()?;
        Some(Self {
            public,
            certificate,
        })
    }

    /// Form by which the agent knows the entry.
    fn blob(&self) -> Result<Vec<u8>, String> {
        match &self.certificate {
            Some(certificate) => Ok(certificate.bytes().to_vec()),
            None => self.public.to_bytes().map_err(|e| e.to_string()),
        }
    }
}

/// Parses the usable keys of a response; keys of unsupported kinds are skipped.
fn keys(mut rest: &[u8]) -> Option<Vec<AgentKey>> {
    let (count, tail) = rest.split_first_chunk::<4>()?;
    rest = tail;
    let mut all = Vec::new();
    for _ in 0..u32::from_be_bytes(*count) {
        let (blob, comment) = (string(&mut rest)?, string(&mut rest)?);
        if all.len() < KEYS_MAX {
            all.extend(AgentKey::parse(blob, comment));
        }
    }
    Some(all)
}

impl Agent {
    /// Connects to the agent's socket at `path`.
    pub(crate) fn connect(path: &Path) -> Result<Self, String> {
        let failed = |e: std::io::Error| {
            format!(
                "the agent at `{}` (SSH_AUTH_SOCK) cannot be reached: {e}",
                path.display()
            )
        };
        let stream = UnixStream::connect(path).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        Ok(Self { stream })
    }
}

impl<S: Read + Write> Agent<S> {
    fn request(&mut self, message: &[u8], expected: u8) -> Result<Vec<u8>, String> {
        let failed = |e: std::io::Error| format!("the agent does not answer: {e}");
        let mut out = Vec::new();
        put(&mut out, message);
        self.stream.write_all(&out).map_err(failed)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(failed)?;
        let length = u32::from_be_bytes(length) as usize;
        if !(1..=ANSWER_BYTES_MAX).contains(&length) {
            return Err(format!(
                "the SSH agent sent an answer of {length} bytes, expected 1 to {ANSWER_BYTES_MAX}: check that SSH_AUTH_SOCK is \
                 the socket of an SSH agent"
            ));
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).map_err(failed)?;
        match answer.split_first() {
            Some((kind, rest)) if *kind == expected => Ok(rest.to_vec()),
            _ if expected == SIGN_RESPONSE => Err(
                "the SSH agent refused to sign: unlock it (`ssh-add -X`), or add the key again (`ssh-add FILE`)"
                    .into(),
            ),
            _ => Err(
                "the SSH agent refused to list its keys: unlock it (`ssh-add -X`), or start another one"
                    .into(),
            ),
        }
    }

    /// Lists the usable keys of the agent.
    pub(crate) fn keys(&mut self) -> Result<Vec<AgentKey>, String> {
        let answer = self.request(&[REQUEST_IDENTITIES], IDENTITIES_ANSWER)?;
        keys(&answer).ok_or_else(|| "the agent's list of keys is cut short".into())
    }

    /// Requests a signature over `bytes` with one of the agent's keys.
    pub(crate) fn sign(&mut self, key: &AgentKey, bytes: &[u8]) -> Result<Signature, String> {
        let blob = key.blob()?;
        let mut message = vec![SIGN_REQUEST];
        put(&mut message, &blob);
        put(&mut message, bytes);
        let flags = if key.public.key_data().is_rsa() {
            RSA_SHA2_512
        } else {
            0
        };
        message.extend_from_slice(&flags.to_be_bytes());
        let answer = self.request(&message, SIGN_RESPONSE)?;
        let signature = string(&mut answer.as_slice());
        let signature = signature.ok_or("the agent's signature is cut short")?;
        Signature::try_from(signature)
            .map_err(|e| format!("the agent's signature is malformed: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostKey;
    use proptest::prelude::*;
    use std::io::Cursor;

    struct Canned(Cursor<Vec<u8>>);

    impl Read for Canned {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(to)
        }
    }

    impl Write for Canned {
        fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
            Ok(from.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_taken_or_refused(kind in 11_u8..16, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut framed = Vec::new();
            put(&mut framed, &[&[kind], bytes.as_slice()].concat());
            let answer = || Agent { stream: Canned(Cursor::new(framed.clone())) };
            let _ = answer().keys();
            let public = HostKey::from_seed(&[1; 32]).public().clone();
            let key = AgentKey { public, certificate: None };
            let _ = answer().sign(&key, b"x");
            let _ = Agent { stream: Canned(Cursor::new(bytes)) }.keys();
        }
    }
}
