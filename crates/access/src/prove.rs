//! A client says who it is: which of the keys that it shows have rights, and whether its proof is one.

use crate::proof::{self, EXPORTER_BYTES};
use crate::slots::Slot;
use crate::{KeyData, PublicKey, Refused, Rights};
use std::fmt;
use std::net::IpAddr;

/// Keys that a client shows at once.
const KEYS_MAX: usize = 64;

/// A connection on which a client may say who it is, and what decides about that.
#[derive(Debug)]
pub struct Proving<'a> {
    /// Which keys have rights.
    pub rights: &'a Rights,
    /// One that has them all the same: the server's own.
    pub host: Option<&'a KeyData>,
    /// What counts the connection, and its client's failures.
    pub slot: &'a Slot,
    /// Where the client is.
    pub from: IpAddr,
    /// What a proof must be over; none without TLS 1.3.
    pub exporter: Option<&'a [u8; EXPORTER_BYTES]>,
}

/// What a client has shown.
#[derive(Debug)]
pub struct Shown {
    /// The places of those keys that have rights, in the order in which they were shown.
    pub usable: Vec<u32>,
    /// The key that was proved, if there was a proof: whether it has rights is to be looked up still.
    pub proved: Option<KeyData>,
}

/// Why a client has shown nothing.
#[derive(Debug)]
pub enum Unproved {
    /// Its source has failed too often, as the words say, and is not listened to for a while.
    Hindered(String),
    /// None of these keys has rights.
    NoneUsable(Vec<(PublicKey, Refused)>),
    /// Its connection is not one that a proof could be bound to.
    Unbound,
    /// Its proof is none.
    Wrong(String),
}

impl fmt::Display for Unproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hindered(words) => f.write_str(words),
            Self::NoneUsable(_) => f.write_str("none of the keys that are shown has rights here"),
            Self::Unbound => {
                f.write_str("a proof is bound to a connection by TLS 1.3, and this one has none")
            }
            Self::Wrong(why) => write!(
                f,
                "the proof is refused: {why} (a proof is good on the connection it was made for, and on no other)"
            ),
        }
    }
}

impl Proving<'_> {
    fn opens(&self, key: &KeyData) -> Result<(), Refused> {
        if self.host == Some(key) {
            return Ok(());
        }
        self.rights.of_key(key, self.from).map(drop)
    }

    /// Looks at the keys that a client shows (in the form of `authorized_keys`) and at its proof, which is empty if there is none. A source that
    /// has failed often and lately is not listened to, unless it shows a key that has rights: one address may be that of many people.
    pub fn see(&self, keys: &[String], proof: &[u8]) -> Result<Shown, Unproved> {
        let hindered = self.slot.hindered();
        if hindered.is_none() {
            // What has just been granted holds.
            self.rights.refresh();
        }
        let mut usable = Vec::new();
        let mut refused = Vec::new();
        for (i, text) in keys.iter().take(KEYS_MAX).enumerate() {
            // A kind that is not known here has no rights here.
            let Ok(key) = PublicKey::from_openssh(text.trim()) else {
                continue;
            };
            match self.opens(key.key_data()) {
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
            self.slot.proving();
        }
        if proof.is_empty() {
            if usable.is_empty() && !keys.is_empty() {
                self.slot.failed();
                return Err(Unproved::NoneUsable(refused));
            }
            let proved = None;
            return Ok(Shown { usable, proved });
        }
        let exporter = self.exporter.ok_or(Unproved::Unbound)?;
        let key = proof::check(proof, exporter).map_err(|why| {
            self.slot.failed();
            Unproved::Wrong(why)
        })?;
        let proved = Some(key);
        Ok(Shown { usable, proved })
    }
}
