//! Tickets, sessions and logins by hashes of their secrets, limited in number.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Instant;

/// Largest number of tickets, of sessions and of logins. Above it, the oldest one of the holder with the most is dropped.
pub(super) const TOTAL_MAX: usize = 1_000;
/// Random bytes in a secret.
pub(super) const RANDOM_BYTES: usize = 32;

/// A ticket, session or login with a holder and an end.
pub(super) trait Expiring {
    /// Hash of the holder's identity, by which the number is limited.
    fn holder(&self) -> Hash;
    fn began(&self) -> Instant;
    fn until(&self) -> Instant;
}

/// Hash of a secret or of a holder's identity.
pub(super) type Hash = [u8; 32];

/// Tickets or sessions with their holders, by hashes of their secrets.
pub(super) struct SecretMap<T>(pub(super) HashMap<Hash, (Hash, T)>);

impl<T> Default for SecretMap<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Expiring> SecretMap<T> {
    /// Drops items whose time has ended.
    pub(super) fn prune(&mut self, now: Instant) {
        self.0.retain(|_, (_, item)| item.until() > now);
    }

    fn drop_oldest_of(&mut self, holder: Hash) {
        let own = self.0.iter().filter(|(_, (of, _))| *of == holder);
        let oldest = own.min_by_key(|(_, (_, item))| item.began());
        if let Some(hash) = oldest.map(|(hash, _)| *hash) {
            self.0.remove(&hash);
        }
    }

    /// Adds an item. A holder with too many loses its own oldest, so that it cannot displace those of others.
    pub(super) fn add(&mut self, hash: Hash, item: T, each: usize) {
        let holder = item.holder();
        let mut counts: HashMap<Hash, usize> = HashMap::new();
        for (of, _) in self.0.values() {
            *counts.entry(*of).or_default() += 1;
        }
        if counts.get(&holder).is_some_and(|n| *n >= each) {
            self.drop_oldest_of(holder);
        } else if self.0.len() >= TOTAL_MAX
            && let Some((most, _)) = counts.into_iter().max_by_key(|(_, n)| *n)
        {
            self.drop_oldest_of(most);
        }
        self.0.insert(hash, (holder, item));
    }

    /// Returns the item of a secret's hash.
    pub(super) fn get(&self, hash: &Hash) -> Option<&T> {
        self.0.get(hash).map(|(_, item)| item)
    }

    /// Removes the item of a secret's hash and returns it.
    pub(super) fn remove(&mut self, hash: &Hash) -> Option<T> {
        self.0.remove(hash).map(|(_, item)| item)
    }
}

/// Hashes a secret. Comparing hashes reveals nothing about the secret by its duration.
pub(super) fn hash(secret: &str) -> Hash {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

/// Formats bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns a random text.
pub(super) fn secret() -> Result<String, String> {
    let mut bytes = [0; RANDOM_BYTES];
    let failed = |e| format!("the system's random number generator failed: {e}");
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|r| !r.is_empty()) {
        filled +=
            rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()).map_err(failed)?;
    }
    Ok(hex(&bytes))
}
