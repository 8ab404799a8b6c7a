//! User certificates of OpenSSH: a certificate authority (CA) states that a key belongs to login names, for a time.
//!
//! A line with `cert-authority` in `authorized_keys` trusts a CA. The owner of a certificate proves the certified key like any other key.

use crate::crypto;
use crate::fingerprint;
use crate::options::{AddressPatterns, time_text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ssh_key::Certificate;
use ssh_key::public::KeyData;
use std::net::IpAddr;

/// Maximum size of a certificate's text, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 16 << 10;
/// Suffix of the names of certificates' types.
const KIND_SUFFIX: &str = "-cert-v01@openssh.com";
/// Maximum number of a key id's characters that are shown.
const KEY_ID_MAX: usize = 80;

/// A certificate as it was presented. Its statements count only after [`UserCertificate::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserCertificate {
    parsed: Certificate,
    /// Encoded form, over which the CA's signature was made.
    bytes: Vec<u8>,
}

impl UserCertificate {
    /// Whether a text begins with the type of a certificate.
    pub fn is_certificate(text: &str) -> bool {
        let kind = text.trim_start().split([' ', '\t']).next();
        kind.unwrap_or_default().ends_with(KIND_SUFFIX)
    }

    /// Parses the text of a certificate, as in `id_ed25519-cert.pub`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > CERTIFICATE_BYTES_MAX {
            return Err(format!(
                "a certificate has at most {CERTIFICATE_BYTES_MAX} bytes of text"
            ));
        }
        let mut words = text.split_ascii_whitespace();
        let kind = words.next().unwrap_or_default();
        if !kind.ends_with(KIND_SUFFIX) {
            return Err("expected an OpenSSH certificate, as in id_ed25519-cert.pub".into());
        }
        let bytes = STANDARD
            .decode(words.next().unwrap_or_default())
            .map_err(|e| format!("the certificate is malformed: {e}"))?;
        let parsed = Self::from_bytes(bytes)?;
        if parsed.parsed.algorithm().to_certificate_type() != kind {
            return Err("the certificate is malformed: its type is not that of its key".into());
        }
        Ok(parsed)
    }

    /// Parses the encoded form of a certificate, as agents list it.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Result<Self, String> {
        let parsed = Certificate::from_bytes(&bytes)
            .map_err(|e| format!("the certificate is malformed: {e}"))?;
        Ok(Self { parsed, bytes })
    }

    /// Returns the text of the certificate, in one line.
    pub fn text(&self) -> String {
        let kind = self.parsed.algorithm().to_certificate_type();
        format!("{kind} {}", STANDARD.encode(&self.bytes))
    }

    /// Returns the encoded form of the certificate.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the certified key.
    pub fn key(&self) -> &KeyData {
        self.parsed.public_key()
    }

    /// Returns the key of the CA that is said to have signed the certificate.
    pub fn authority(&self) -> &KeyData {
        self.parsed.signature_key()
    }

    /// Returns the login names that the certificate lists.
    pub fn logins(&self) -> &[String] {
        self.parsed.valid_principals()
    }

    /// Returns the end of the validity, in seconds since 1970; `None` for a certificate without an end.
    pub fn end(&self) -> Option<i64> {
        let end = i64::try_from(self.parsed.valid_before()).ok()?;
        (end < i64::MAX).then_some(end)
    }

    /// Describes the certificate for messages: its key id, serial number and key.
    pub fn description(&self) -> String {
        // The key id is the CA's own text: it must not break a line of the log.
        let id = self.parsed.key_id().chars().filter(|c| !c.is_control());
        let id: String = id.take(KEY_ID_MAX).collect();
        format!(
            "certificate `{id}` (serial {}) of key {}",
            self.parsed.serial(),
            fingerprint(self.key())
        )
    }

    /// Checks everything that does not depend on the server's files: the signature, the kind, the time and the address. The error is a
    /// message.
    pub(crate) fn check(&self, now: i64, from: IpAddr) -> Result<(), String> {
        crypto::usable(self.key())?;
        self.check_signature()?;
        if self.parsed.cert_type().is_host() {
            return Err(
                "the certificate is for a host, and a user's is needed (`ssh-keygen -s CA -I ID -n LOGIN`, without -h)".into(),
            );
        }
        if self.logins().is_empty() {
            return Err(
                "the certificate names no user: its CA must list login names (`ssh-keygen -s CA -n LOGIN`)".into(),
            );
        }
        self.check_time(now)?;
        self.check_options(from)
    }

    fn check_signature(&self) -> Result<(), String> {
        const MALFORMED: &str = "the certificate is malformed: its signature is incomplete";
        let signature = Vec::<u8>::try_from(self.parsed.signature().clone())
            .map_err(|e| format!("the certificate is malformed: {e}"))?;
        // The signature comes last, after its length, and covers all bytes before it.
        let rest = self.bytes.strip_suffix(signature.as_slice());
        let length = u32::try_from(signature.len()).unwrap_or(u32::MAX);
        let signed = rest.and_then(|rest| rest.strip_suffix(&length.to_be_bytes()));
        let signed = signed.ok_or(MALFORMED)?;
        crypto::verify(self.authority(), self.parsed.signature(), signed)
            .map_err(|why| format!("the certificate is not signed by the CA that it names: {why}"))
    }

    fn check_time(&self, now: i64) -> Result<(), String> {
        let text = |seconds: u64| {
            let seconds = i64::try_from(seconds).ok();
            seconds.and_then(time_text).unwrap_or_default()
        };
        let now = u64::try_from(now).unwrap_or(0);
        if now < self.parsed.valid_after() {
            return Err(format!(
                "the certificate is not valid before {} (compare the clocks of its CA and of the server)",
                text(self.parsed.valid_after())
            ));
        }
        if now >= self.parsed.valid_before() {
            return Err(format!(
                "the certificate expired at {}: request a new one from its CA",
                text(self.parsed.valid_before())
            ));
        }
        Ok(())
    }

    fn check_options(&self, from: IpAddr) -> Result<(), String> {
        for (name, value) in self.parsed.critical_options().iter() {
            if name != "source-address" {
                return Err(format!(
                    "the certificate has the critical option `{name}`, which this server cannot enforce"
                ));
            }
            let allowed = AddressPatterns::parse(value)
                .map_err(|why| format!("the certificate's source-address is malformed: {why}"))?;
            if !allowed.allows(from) {
                return Err(format!("the certificate may be used from {value} only"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_certificate_or_refused(text in "\\PC{0,60}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = UserCertificate::parse(&text);
            let text = format!("ssh-ed25519{KIND_SUFFIX} {}", STANDARD.encode(&bytes));
            prop_assert!(UserCertificate::parse(&text).is_err());
        }
    }
}
