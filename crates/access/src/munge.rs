//! Credentials of Munge, by which the daemons of a cluster's machines vouch for the users of their processes.
//!
//! The programs `munge` and `unmunge` make and read credentials. The payload is bound to one TLS connection, so that a credential is
//! useless on another. A sandboxed server may not start programs: [`prepare`] starts helpers before, which run `unmunge` for it.

mod helper;
mod output;
mod program;

pub use helper::serve_helper;
pub use output::{CREDENTIAL_BYTES_MAX, MungeFailure, MungeUser};

use crate::proof::EXPORTER_BYTES;
use esker_model::{Error, Result};
use helper::Helper;
use output::is_credential;
use program::{ProgramOutput, TIME_MAX, run, unmunge};
use ring::digest;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a client waits for its turn.
const TURN_MAX: Duration = Duration::from_secs(10);
/// Number of credentials that are decoded at once.
const DECODERS: usize = 2;
/// Prefix of the payload, and of what is hashed.
const CONTEXT: &str = "esker-munge@1";

/// Returns the payload of a credential for a connection: a hash of its exported value, which does not reveal the value.
pub fn payload(exporter: &[u8; EXPORTER_BYTES]) -> String {
    let bytes = [CONTEXT.as_bytes(), b"\0", exporter].concat();
    let hash = digest::digest(&digest::SHA256, &bytes);
    let mut text = format!("{CONTEXT} ");
    for byte in hash.as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Makes a credential of this process's user for a connection, by the program `munge`.
pub fn encode(exporter: &[u8; EXPORTER_BYTES]) -> Result<String> {
    let failed = |why: &str| Error::Target(format!("Munge made no credential: {why}"));
    let mut command = Command::new("munge");
    if let Some(socket) = crate::environment::variable("ESKER_MUNGE_SOCKET") {
        command.arg("-S").arg(socket);
    }
    let done = run(&mut command, payload(exporter).as_bytes(), TIME_MAX);
    let ProgramOutput { out, error, .. } = done.map_err(|e| failed(&e))?;
    let credential = String::from_utf8(out).unwrap_or_default();
    let credential = credential.trim();
    if !is_credential(credential) {
        let error = error.trim();
        let why = if error.is_empty() {
            "does munged run on this machine?"
        } else {
            error
        };
        return Err(failed(why));
    }
    Ok(credential.to_owned())
}

/// Decodes credentials, a few at a time.
#[derive(Debug)]
pub struct MungeDecoder {
    /// Decoders that are not in use.
    free: Mutex<Vec<Worker>>,
    freed: Condvar,
}

#[derive(Debug)]
enum Worker {
    /// Starts `unmunge` in this process.
    Direct(Option<PathBuf>),
    /// Asks a process that was started before.
    Helper(Helper),
}

/// Decoders of this process, if helpers were started.
static PREPARED: OnceLock<MungeDecoder> = OnceLock::new();

/// Starts helpers for all servers of this process: each is `program` with `arguments`, which calls [`serve_helper`]. Call it before the
/// process enters its sandbox.
pub fn prepare(program: &Path, arguments: &[&str]) -> Result<()> {
    let mut workers = Vec::new();
    for _ in 0..DECODERS {
        workers.push(Worker::Helper(Helper::start(program, arguments)?));
    }
    // A process with several servers keeps the first helpers.
    let _ = PREPARED.set(MungeDecoder::of(workers));
    Ok(())
}

impl MungeDecoder {
    /// Creates a decoder that starts `unmunge`, which asks munged at the socket, or at the usual one.
    pub fn new(socket: Option<&Path>) -> Self {
        let worker = || Worker::Direct(socket.map(Path::to_path_buf));
        Self::of(std::iter::repeat_with(worker).take(DECODERS).collect())
    }

    fn of(workers: Vec<Worker>) -> Self {
        Self {
            free: Mutex::new(workers),
            freed: Condvar::new(),
        }
    }

    /// Returns the user who made a credential for a connection.
    pub fn user_of(
        &self,
        credential: &[u8],
        exporter: &[u8; EXPORTER_BYTES],
    ) -> std::result::Result<u32, String> {
        let credential = std::str::from_utf8(credential).unwrap_or_default().trim();
        if !is_credential(credential) {
            return Err("that is not a Munge credential".into());
        }
        // Helpers of the process are used if there are any: its sandbox forbids to start programs.
        let decoder = PREPARED.get().unwrap_or(self);
        let user = decoder.decode(credential).map_err(|e| e.to_string())?;
        if user.payload != payload(exporter).as_bytes() {
            return Err("the Munge credential was made for another connection".into());
        }
        Ok(user.uid)
    }

    fn decode(&self, credential: &str) -> std::result::Result<MungeUser, MungeFailure> {
        let unavailable = |why: &str| MungeFailure::Unavailable(why.to_owned());
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + TURN_MAX;
        let mut worker = loop {
            if let Some(worker) = free.pop() {
                break worker;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(unavailable(
                    "the server decodes too many Munge credentials at once: try again",
                ));
            }
            let waited = self.freed.wait_timeout(free, left);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(free);
        let decoded = match &mut worker {
            Worker::Direct(socket) => unmunge(credential, socket.as_deref()),
            Worker::Helper(helper) => helper.decode(credential),
        };
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(worker);
        self.freed.notify_one();
        decoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_differ_per_connection() {
        let one = payload(&[7; 32]);
        assert!(
            one.starts_with("esker-munge@1 ") && one.len() == 78,
            "{one}"
        );
        assert_eq!(one, payload(&[7; 32]));
        assert_ne!(one, payload(&[8; 32]));
    }

    #[test]
    fn other_bytes_are_no_credential() {
        let decoder = MungeDecoder::new(None);
        let refused = decoder.user_of(b"-x", &[0; 32]).unwrap_err();
        assert!(refused.contains("not a Munge credential"), "{refused}");
    }
}
