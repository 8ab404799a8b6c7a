//! Host key of a server: an Ed25519 key in OpenSSH's format, created when first needed.

use crate::{crypto, file, fingerprint, proof};
use esker_model::{Error, Result};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use ssh_key::private::{Ed25519Keypair, Ed25519PrivateKey, KeypairData};
use ssh_key::public::Ed25519PublicKey;
use ssh_key::{LineEnding, PrivateKey, PublicKey, SshSig};
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// File name of a database's host key, in its folder.
pub const NAME: &str = "host_key";
/// PKCS #8 prefix of the 32 bytes of an Ed25519 private key (RFC 8410, section 7).
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The host key of a server.
#[derive(Clone)]
pub struct HostKey {
    private: Arc<PrivateKey>,
}

/// Omits the private half.
impl std::fmt::Debug for HostKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostKey({})", self.fingerprint())
    }
}

impl HostKey {
    /// Derives the key of a seed. The seed must stay secret: it determines the private key.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        // Any 32 bytes are a valid seed.
        let public = Ed25519KeyPair::from_seed_unchecked(seed)
            .ok()
            .and_then(|pair| <[u8; 32]>::try_from(pair.public_key().as_ref()).ok())
            .unwrap_or_default();
        let pair = Ed25519Keypair {
            public: Ed25519PublicKey(public),
            private: Ed25519PrivateKey::from_bytes(seed),
        };
        let mut private = PrivateKey::from(pair);
        private.set_comment("esker");
        Self {
            private: Arc::new(private),
        }
    }

    /// Generates a new random key.
    pub fn generate() -> Result<Self> {
        let mut seed = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(&mut *seed).map_err(|_| {
            Error::io(
                "making a host key",
                std::io::Error::other("the system's random number generator failed"),
            )
        })?;
        Ok(Self::from_seed(&seed))
    }

    /// Reads the key file at `path`, or creates it with a new key. Of concurrent processes, exactly one creates it.
    pub fn open_or_create(path: &Path) -> Result<Self> {
        if let Some(key) = Self::read(path)? {
            return Ok(key);
        }
        let key = Self::generate()?;
        let failed = |e| Error::io(format!("writing the host key `{}`", path.display()), e);
        let text = key.private.to_openssh(LineEnding::LF);
        let text = text.map_err(|e| failed(std::io::Error::other(e)))?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".new.{}", std::process::id()));
        let beside = path.with_file_name(name);
        // A crashed process with this id may have left its temporary file.
        let _ = std::fs::remove_file(&beside);
        file::create(&beside, 0o600, text.as_bytes()).map_err(failed)?;
        let linked = std::fs::hard_link(&beside, path);
        let _ = std::fs::remove_file(&beside);
        match linked {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                let other = Self::read(path)?;
                return other.ok_or_else(|| failed(e));
            }
            Err(e) => return Err(failed(e)),
        }
        let public = key.public().to_openssh().unwrap_or_default();
        let _ = file::replace(
            &path.with_extension("pub"),
            0o644,
            format!("{public}\n").as_bytes(),
        );
        Ok(key)
    }

    /// Reads the key file at `path`; `None` if it does not exist.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let bad = |why: &str| {
            Error::Target(format!(
                "`{}` cannot be the server's host key: {why}",
                path.display()
            ))
        };
        let Some(text) = file::read_secret(path)? else {
            return Ok(None);
        };
        let private = PrivateKey::from_openssh(text.as_bytes())
            .map_err(|e| bad(&format!("it is not a private key in OpenSSH's form ({e})")))?;
        if private.is_encrypted() {
            return Err(bad(
                "it is protected by a passphrase, which a server cannot ask for",
            ));
        }
        if !matches!(private.key_data(), KeypairData::Ed25519(_)) {
            return Err(bad(&format!(
                "it is of type {}; expected Ed25519: make one with `ssh-keygen -t ed25519`",
                private.algorithm()
            )));
        }
        Ok(Some(Self {
            private: Arc::new(private),
        }))
    }

    /// Returns the public half of the key.
    pub fn public(&self) -> &PublicKey {
        self.private.public_key()
    }

    /// Returns the fingerprint as `ssh-keygen -l` prints it.
    pub fn fingerprint(&self) -> String {
        fingerprint(self.public().key_data())
    }

    fn pkcs8(&self) -> PrivatePkcs8KeyDer<'static> {
        let mut der = PKCS8.to_vec();
        if let KeypairData::Ed25519(pair) = self.private.key_data() {
            der.extend_from_slice(pair.private.as_ref());
        }
        PrivatePkcs8KeyDer::from(der)
    }

    /// Returns a self-signed certificate of this key, and the key for TLS. Esker clients check only the key of the certificate; other
    /// clients may be configured to trust it for the given names and addresses of the server.
    pub fn certificate(
        &self,
        names: &[String],
    ) -> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>)> {
        let bad = |e: rcgen::Error| {
            Error::Target(format!(
                "no TLS certificate can be made from the host key: {e}"
            ))
        };
        let key = self.pkcs8();
        let pair = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&key, &rcgen::PKCS_ED25519)
            .map_err(bad)?;
        let mut of = rcgen::CertificateParams::new(names.to_vec()).map_err(bad)?;
        of.distinguished_name = rcgen::DistinguishedName::new();
        of.distinguished_name
            .push(rcgen::DnType::CommonName, "esker");
        of.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
        of.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = of.self_signed(&pair).map_err(bad)?;
        Ok((certificate.der().clone(), key))
    }

    /// Signs a proof for another server of the cluster, which has the same key.
    pub fn prove(&self, exporter: &[u8; proof::EXPORTER_BYTES]) -> Result<SshSig> {
        proof::sign_with(self.public(), exporter, |bytes| {
            crypto::sign(self.private.key_data(), bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    #[test]
    fn a_key_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let made: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| HostKey::read(&path).unwrap()))
                .collect();
            threads
                .into_iter()
                .for_each(|t| assert!(t.join().unwrap().is_none()));
            vec![HostKey::open_or_create(&path).unwrap().fingerprint()]
        });
        assert_eq!(
            HostKey::open_or_create(&path).unwrap().fingerprint(),
            made[0]
        );
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = HostKey::open_or_create(&path).unwrap_err().to_string();
        assert!(refused.contains("others can read it"), "{refused}");
    }

    #[test]
    fn what_is_no_key_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        file::replace(&path, 0o600, b"nonsense").unwrap();
        let refused = HostKey::open_or_create(&path).unwrap_err().to_string();
        assert!(refused.contains("not a private key"), "{refused}");
    }
}
