//! User certificates of OpenSSH: a certificate authority (CA) states that a key belongs to login names, for a time.
//!
//! A line with `cert-authority` in `authorized_keys` trusts a CA. The owner of a certificate proves the certified key like any other key.

use crate::crypto;
use crate::fingerprint;
use crate::options::{AddressPatterns, time_text};
use crate::wire::{number, put, string};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ssh_key::public::KeyData;
use ssh_key::{PublicKey, Signature};
use std::net::IpAddr;

/// Maximum size of a certificate's text, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 16 << 10;
/// Suffix of the names of certificates' types.
const KIND_SUFFIX: &str = "-cert-v01@openssh.com";
/// Maximum number of a key id's characters that are shown.
const KEY_ID_MAX: usize = 80;

/// Kind of a certificate for a user, not for a host.
const USER: u32 = 1;

/// A certificate as it was presented. Its statements count only after [`UserCertificate::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserCertificate {
    fields: Fields,
    /// Encoded form, whose beginning the CA has signed.
    bytes: Vec<u8>,
}

/// Statements of a certificate (OpenSSH's PROTOCOL.certkeys).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fields {
    /// Name of the type of certificates, as in `ssh-ed25519-cert-v01@openssh.com`.
    kind: String,
    key: KeyData,
    serial: u64,
    /// `USER`, or another number for a host.
    of: u32,
    id: String,
    logins: Vec<String>,
    /// Time from which the certificate is valid, in seconds since 1970.
    after: u64,
    /// Time before which it is valid; the largest number for always.
    before: u64,
    /// Critical options with their values.
    options: Vec<(String, String)>,
    authority: KeyData,
    signature: Signature,
    /// Number of the bytes that the CA has signed.
    signed: usize,
}

impl Fields {
    /// Decodes a certificate; `None` if it is malformed or of an unsupported type.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let mut rest = bytes;
        let kind = text(string(&mut rest)?)?;
        let _nonce = string(&mut rest)?;
        let key = decode_key(kind.strip_suffix(KIND_SUFFIX)?, &mut rest)?;
        let serial = number(&mut rest)?;
        let (of, tail) = rest.split_first_chunk::<4>()?;
        rest = tail;
        let id = text(string(&mut rest)?)?;
        let mut list = string(&mut rest)?;
        let mut logins = Vec::new();
        while !list.is_empty() {
            logins.push(text(string(&mut list)?)?);
        }
        let (after, before) = (number(&mut rest)?, number(&mut rest)?);
        let mut list = string(&mut rest)?;
        let mut options = Vec::new();
        while !list.is_empty() {
            let name = text(string(&mut list)?)?;
            // A value is a string within a string; options without a value have an empty one.
            let mut value = string(&mut list)?;
            let value = if value.is_empty() {
                String::new()
            } else {
                text(string(&mut value)?)?
            };
            options.push((name, value));
        }
        let _extensions = string(&mut rest)?;
        let _reserved = string(&mut rest)?;
        let authority = PublicKey::from_bytes(string(&mut rest)?).ok()?;
        let signed = bytes.len().checked_sub(rest.len())?;
        let signature = Signature::try_from(string(&mut rest)?).ok()?;
        rest.is_empty().then(|| Self {
            kind,
            key,
            serial,
            of: u32::from_be_bytes(*of),
            id,
            logins,
            after,
            before,
            options,
            authority: authority.key_data().clone(),
            signature,
            signed,
        })
    }
}

/// Decodes the certified key, which stands in its certificate without the name of its type.
fn decode_key(kind: &str, rest: &mut &[u8]) -> Option<KeyData> {
    let parts = match kind {
        "ssh-ed25519" => 1,
        "ssh-rsa" => 2,
        kind if kind.starts_with("ecdsa-sha2-") => 2,
        _ => return None,
    };
    let mut blob = Vec::new();
    put(&mut blob, kind.as_bytes());
    for _ in 0..parts {
        put(&mut blob, string(rest)?);
    }
    Some(PublicKey::from_bytes(&blob).ok()?.key_data().clone())
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
        if parsed.fields.kind != kind {
            return Err("the certificate is malformed: its type is not that of its key".into());
        }
        Ok(parsed)
    }

    /// Parses the encoded form of a certificate, as agents list it.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Result<Self, String> {
        let fields = Fields::decode(&bytes).ok_or(
            "the certificate is malformed, or of a type that is not accepted (Ed25519, ECDSA and RSA are)",
        )?;
        Ok(Self { fields, bytes })
    }

    /// Returns the text of the certificate, in one line.
    pub fn text(&self) -> String {
        format!("{} {}", self.fields.kind, STANDARD.encode(&self.bytes))
    }

    /// Returns the encoded form of the certificate.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the certified key.
    pub fn key(&self) -> &KeyData {
        &self.fields.key
    }

    /// Returns the key of the CA that is said to have signed the certificate.
    pub fn authority(&self) -> &KeyData {
        &self.fields.authority
    }

    /// Returns the login names that the certificate lists.
    pub fn logins(&self) -> &[String] {
        &self.fields.logins
    }

    /// Returns the end of the validity, in seconds since 1970; `None` for a certificate without an end.
    pub fn end(&self) -> Option<i64> {
        i64::try_from(self.fields.before).ok()
    }

    /// Describes the certificate for messages: its key id, serial number and key.
    pub fn description(&self) -> String {
        // The key id is the CA's own text: it must not break a line of the log.
        let id = self.fields.id.chars().filter(|c| !c.is_control());
        let id: String = id.take(KEY_ID_MAX).collect();
        format!(
            "certificate `{id}` (serial {}) of key {}",
            self.fields.serial,
            fingerprint(self.key())
        )
    }

    /// Checks everything that does not depend on the server's files: the signature, the kind, the time and the address. The error is a
    /// message.
    pub(crate) fn check(&self, now: i64, from: IpAddr) -> Result<(), String> {
        crypto::usable(self.key())?;
        self.check_signature()?;
        if self.fields.of != USER {
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
        // The signature comes last, and covers all bytes before it.
        let signed = self.bytes.get(..self.fields.signed).unwrap_or_default();
        crypto::verify(self.authority(), &self.fields.signature, signed)
            .map_err(|why| format!("the certificate is not signed by the CA that it names: {why}"))
    }

    fn check_time(&self, now: i64) -> Result<(), String> {
        let text = |seconds: u64| {
            let seconds = i64::try_from(seconds).ok();
            seconds.and_then(time_text).unwrap_or_default()
        };
        let now = u64::try_from(now).unwrap_or(0);
        if now < self.fields.after {
            return Err(format!(
                "the certificate is not valid before {} (compare the clocks of its CA and of the server)",
                text(self.fields.after)
            ));
        }
        if now >= self.fields.before {
            return Err(format!(
                "the certificate expired at {}: request a new one from its CA",
                text(self.fields.before)
            ));
        }
        Ok(())
    }

    fn check_options(&self, from: IpAddr) -> Result<(), String> {
        for (name, value) in &self.fields.options {
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
