//! Authentication of a client: which of the offered keys have rights, and whether its proof is valid.

use crate::proof::{self, EXPORTER_BYTES};
use crate::slots::Slot;
use crate::{KeyData, PublicKey, Refused, Rights, UserCertificate};
use std::fmt;
use std::net::IpAddr;

/// Maximum number of keys that a client offers at once.
const KEYS_MAX: usize = 64;

/// A connection on which a client may prove its identity, with the inputs of the decision.
#[derive(Debug)]
pub struct Authentication<'a> {
    /// Rights of all keys.
    pub rights: &'a Rights,
    /// The server's own host key, which always has rights.
    pub host: Option<&'a KeyData>,
    /// Slot that counts the connection and its client's failures.
    pub slot: &'a Slot,
    /// Address of the client.
    pub from: IpAddr,
    /// Value that a proof must sign; `None` without TLS 1.3.
    pub exporter: Option<&'a [u8; EXPORTER_BYTES]>,
    /// Login name that the client asks for, empty for none, if certificates are accepted.
    pub certificates: Option<&'a str>,
    /// Whether the client may be authenticated without a key, so that unknown keys are not counted as a failure.
    pub has_other_ways: bool,
}

/// Result of an authentication step.
#[derive(Debug)]
pub struct AuthenticationStep {
    /// Indexes of the offered keys that have rights, in the order offered.
    pub usable: Vec<u32>,
    /// Proved key, if there was a proof; its rights are still to be looked up.
    pub proved: Option<KeyData>,
}

/// Reason for refusing an authentication step.
#[derive(Debug)]
pub enum Unproved {
    /// The source failed too often and is blocked for a while; the text says so.
    Hindered(String),
    /// None of these keys has rights.
    NoneUsable(Vec<(PublicKey, Refused)>),
    /// The connection has no exported value to which a proof could be bound.
    Unbound,
    /// The proof is invalid.
    Wrong(String),
}

impl fmt::Display for Unproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hindered(words) => f.write_str(words),
            Self::NoneUsable(_) => f.write_str("none of the presented keys has rights here"),
            Self::Unbound => f.write_str(
                "a proof is bound to a TLS 1.3 connection, and this connection has no TLS",
            ),
            Self::Wrong(why) => write!(
                f,
                "the proof is refused: {why} (a proof is valid only on the connection that it was made for)"
            ),
        }
    }
}

impl Authentication<'_> {
    fn check_rights(&self, key: &KeyData) -> Result<(), Refused> {
        if self.host == Some(key) {
            return Ok(());
        }
        self.rights.of_key(key, self.from).map(drop)
    }

    /// Looks up the rights of an offered key or certificate; `None` if its kind is not supported.
    fn check_offer(&self, text: &str) -> Option<(PublicKey, Result<(), Refused>)> {
        if let Some(asked) = self.certificates
            && UserCertificate::is_certificate(text)
        {
            let certificate = UserCertificate::parse(text).ok()?;
            let checked = self.rights.logins_of(&certificate, asked, self.from);
            let key = PublicKey::new(certificate.key().clone(), "certificate");
            return Some((key, checked.map(drop)));
        }
        let key = PublicKey::from_openssh(text.trim()).ok()?;
        let checked = self.check_rights(key.key_data());
        Some((key, checked))
    }

    /// Checks the keys and certificates that a client offers (in the format of `authorized_keys`) and its proof, empty if absent. A source that failed
    /// often and recently is refused, unless it offers a key that has rights: many users may share one address.
    pub fn check(&self, keys: &[String], proof: &[u8]) -> Result<AuthenticationStep, Unproved> {
        let hindered = self.slot.hindered();
        if hindered.is_none() {
            // Rights that were just granted must count.
            self.rights.refresh();
        }
        let mut usable = Vec::new();
        let mut refused = Vec::new();
        for (i, text) in keys.iter().take(KEYS_MAX).enumerate() {
            let Some((key, checked)) = self.check_offer(text) else {
                continue;
            };
            match checked {
                Ok(()) => usable.push(u32::try_from(i).unwrap_or(u32::MAX)),
                Err(why) => refused.push((key, why)),
            }
        }
        if let Some(words) = hindered
            && usable.is_empty()
            && !self.slot.is_proving()
        {
            return Err(Unproved::Hindered(words));
        }
        if !usable.is_empty() {
            self.slot.key_offered();
        }
        if proof.is_empty() {
            if usable.is_empty() && !keys.is_empty() {
                if !self.has_other_ways {
                    self.slot.failed();
                }
                return Err(Unproved::NoneUsable(refused));
            }
            let proved = None;
            return Ok(AuthenticationStep { usable, proved });
        }
        let exporter = self.exporter.ok_or(Unproved::Unbound)?;
        let key = proof::check(proof, exporter).map_err(|why| {
            self.slot.failed();
            Unproved::Wrong(why)
        })?;
        let proved = Some(key);
        Ok(AuthenticationStep { usable, proved })
    }
}
