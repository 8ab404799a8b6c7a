//! A login that a browser has begun at a provider and not finished.

use super::secret_map::{Expiring, Hash};
use std::time::{Duration, Instant};

/// Time until a login that was begun expires.
pub(super) const LOGIN: Duration = Duration::from_mins(10);

/// A login that was begun.
#[derive(Debug, Clone)]
pub(super) struct BegunLogin {
    /// Hash of the user or address that began it.
    pub(super) holder: Hash,
    /// Hash of the browser's cookie.
    pub(super) cookie: Hash,
    pub(super) nonce: String,
    pub(super) verifier: String,
    pub(super) redirect: String,
    pub(super) began: Instant,
}

impl Expiring for BegunLogin {
    fn holder(&self) -> Hash {
        self.holder
    }
    fn began(&self) -> Instant {
        self.began
    }
    fn until(&self) -> Instant {
        self.began + LOGIN
    }
}
