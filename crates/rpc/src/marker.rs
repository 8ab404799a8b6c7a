//! Markers that make a repeated write count once.
//!
//! ```text
//!  [00]esker-request/[milliseconds since 1970, 8][random 16]
//! ```
//!
//! Whoever sends a batch somewhere puts one into it if it has none, so that the batch can be sent again if the answer
//! is lost. The time in front lets the owner of the database forget old ones by range.

use esker_model::{Error, Result};
use std::hash::{BuildHasher as _, RandomState};
use std::io::Read;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What every such marker begins with.
pub const PREFIX: &[u8] = b"\0esker-request/";

/// A marker that no other request has: 64 random bits of this process, read once, and a count.
pub fn new(now_millis: u64) -> Result<Vec<u8>> {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let process = if let Some(process) = PROCESS.get() {
        *process
    } else {
        let mut random = [0; 8];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut f| f.read_exact(&mut random))
            .map_err(|e| Error::io("reading /dev/urandom", e))?;
        // A forked child has its parent's random bits, but not its process id.
        *PROCESS.get_or_init(|| u64::from_be_bytes(random))
    };
    let process = process ^ (u64::from(std::process::id()) << 32);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Ok([
        PREFIX,
        &now_millis.to_be_bytes(),
        &process.to_be_bytes(),
        &count.to_be_bytes(),
    ]
    .concat())
}

/// A number that differs from call to call, for jitter. Not for secrets.
pub fn dice() -> u64 {
    RandomState::new().hash_one(0_u8)
}
