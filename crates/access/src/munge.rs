//! Credentials of Munge, by which the daemons of a cluster's machines vouch for the users of their processes.
//!
//! The programs `munge` and `unmunge` make and read credentials. The payload is bound to one TLS connection, so that a credential is
//! useless on another. A sandboxed server may not start programs: [`prepare`] starts helpers before, which run `unmunge` for it.

mod helper;
mod output;

pub use helper::{prepare, serve_helper};

use crate::proof::EXPORTER_BYTES;
use esker_model::{Error, Result};
use helper::Helper;
use output::read_output;
use ring::digest;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Maximum size of a credential, in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 4 << 10;
/// Maximum size of a program's output, in bytes.
const OUTPUT_BYTES_MAX: u64 = 16 << 10;
/// Time limit of `munge` and of `unmunge`.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Time for which a client waits for its turn.
const TURN_MAX: Duration = Duration::from_secs(10);
/// Number of credentials that are decoded at once.
const DECODERS: usize = 2;
/// Prefix of the payload, and of what is hashed.
const CONTEXT: &str = "esker-munge@1";

/// A user that Munge vouches for, and what the client said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MungeUser {
    /// User id on the client's machine; all machines of a cluster have the same ids.
    pub uid: u32,
    /// Payload of the credential.
    pub payload: Vec<u8>,
}

/// Reason why a credential is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MungeFailure {
    /// `unmunge` refused the credential with this status.
    Status(u32),
    /// The credential cannot be decoded now.
    Unavailable(String),
}

impl fmt::Display for MungeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => f.write_str(why),
            Self::Status(6) => f.write_str(
                "munged does not run on the server, or at another socket (`munge_socket` in [access])",
            ),
            Self::Status(7) => f.write_str("munged on the server did not answer in time"),
            Self::Status(15) => f.write_str(
                "the Munge credential has expired: it is valid for 300 s, so the clocks of the two machines differ by more (set both by NTP)",
            ),
            Self::Status(16) => f.write_str(
                "the Munge credential is from the future: the clocks of the two machines differ by more than 300 s (set both by NTP)",
            ),
            Self::Status(17) => {
                f.write_str("the Munge credential was used before: each one is valid once")
            }
            Self::Status(18) => f.write_str("the server's user may not decode the Munge credential"),
            Self::Status(status) => write!(
                f,
                "the Munge credential cannot be decoded (status {status}): do the two machines have the same /etc/munge/munge.key?"
            ),
        }
    }
}

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
    let (out, error) =
        run(&mut command, payload(exporter).as_bytes(), TIME_MAX).map_err(|e| failed(&e))?;
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

/// Whether a text has the form of a credential: one line of limited length.
fn is_credential(text: &str) -> bool {
    let inner = text
        .strip_prefix("MUNGE:")
        .and_then(|rest| rest.strip_suffix(':'));
    let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    text.len() <= CREDENTIAL_BYTES_MAX && inner.is_some_and(|inner| inner.bytes().all(base64))
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

/// Decodes a credential by the program `unmunge`.
fn unmunge(
    credential: &str,
    socket: Option<&Path>,
) -> std::result::Result<MungeUser, MungeFailure> {
    let mut command = Command::new("unmunge");
    command.args(["-N", "-k", "STATUS,UID,LENGTH"]);
    if let Some(socket) = socket {
        command.arg("-S").arg(socket);
    }
    let (out, error) = run(&mut command, credential.as_bytes(), TIME_MAX).map_err(|why| {
        MungeFailure::Unavailable(format!("the server cannot run unmunge: {why}"))
    })?;
    read_output(&out).unwrap_or_else(|| {
        // Without munged there is a message, but no status.
        Err(if error.contains("socket") {
            MungeFailure::Status(6)
        } else {
            MungeFailure::Unavailable(format!("unmunge said: {}", error.trim()))
        })
    })
}

/// Runs a program within limits of time and size; returns its output and its messages.
fn run(
    command: &mut Command,
    input: &[u8],
    limit: Duration,
) -> std::result::Result<(Vec<u8>, String), String> {
    let name = command.get_program().to_owned();
    let name = AsRef::<OsStr>::as_ref(&name).to_string_lossy().into_owned();
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            format!("the program `{name}` is not installed on this machine")
        }
        _ => format!("the program `{name}` does not start: {e}"),
    })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    if let Some(mut stdin) = stdin {
        // The input fits into the pipe's buffer. A program that does not read it says why.
        let _ = stdin.write_all(input);
    }
    let (sender, receiver) = sync_channel(1);
    let reader = move || {
        let (mut out, mut error) = (Vec::new(), String::new());
        if let Some(stdout) = stdout {
            let _ = stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut out);
        }
        if let Some(stderr) = stderr {
            let _ = stderr.take(OUTPUT_BYTES_MAX).read_to_string(&mut error);
        }
        let _ = sender.send((out, error));
    };
    let reading = std::thread::Builder::new()
        .name("esker-munge".into())
        .spawn(reader);
    let outcome = match &reading {
        Ok(_) => receiver.recv_timeout(limit),
        Err(_) => Err(RecvTimeoutError::Disconnected),
    };
    // The program has ended, or is too late.
    let _ = child.kill();
    let _ = child.wait();
    outcome.map_err(|_| {
        format!(
            "the program `{name}` did not answer within {} ms",
            limit.as_millis()
        )
    })
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
    fn credentials_are_one_line_of_limited_length() {
        assert!(is_credential("MUNGE:AwQFAAD+/w==:"));
        for text in ["", "MUNGE:", "MUNGE:a b:", "MUNGE:a\nb:", "x MUNGE:a:"] {
            assert!(!is_credential(text), "{text:?}");
        }
        let long = format!("MUNGE:{}:", "a".repeat(CREDENTIAL_BYTES_MAX));
        assert!(!is_credential(&long));
        let decoder = MungeDecoder::new(None);
        let refused = decoder.user_of(b"-x", &[0; 32]).unwrap_err();
        assert!(refused.contains("not a Munge credential"), "{refused}");
    }

    #[test]
    fn programs_are_limited_in_time_and_missing_ones_are_named() {
        // Only the program that sleeps reaches a limit.
        let long = Duration::from_mins(5);
        let refused = run(&mut Command::new("no-such-program-7"), b"", long).unwrap_err();
        assert!(refused.contains("not installed"), "{refused}");
        let (out, _) = run(&mut Command::new("cat"), b"text", long).unwrap();
        assert_eq!(out, b"text");
        let refused = run(
            Command::new("sleep").arg("600"),
            b"",
            Duration::from_millis(20),
        )
        .unwrap_err();
        assert!(refused.contains("did not answer within 20 ms"), "{refused}");
        let (out, _) = run(Command::new("cat").arg("/dev/zero"), b"", long).unwrap();
        assert_eq!(out.len() as u64, OUTPUT_BYTES_MAX);
    }
}
