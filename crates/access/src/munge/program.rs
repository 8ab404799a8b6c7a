//! Running `munge` and `unmunge` within limits of time and size.

use super::output::{MungeFailure, MungeUser, read_output};
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Maximum size of a program's output, in bytes.
const OUTPUT_BYTES_MAX: u64 = 16 << 10;
/// Time limit of `munge` and of `unmunge`.
pub(super) const TIME_MAX: Duration = Duration::from_secs(5);

/// Interval between checks whether a program has ended.
const END_POLL: Duration = Duration::from_millis(1);

/// Decodes a credential by the program `unmunge`.
pub(super) fn unmunge(credential: &str, socket: Option<&Path>) -> Result<MungeUser, MungeFailure> {
    let mut command = Command::new("unmunge");
    command.args(["-k", "STATUS,UID,LENGTH"]);
    if let Some(socket) = socket {
        command.arg("-S").arg(socket);
    }
    let done = run(&mut command, credential.as_bytes(), TIME_MAX).map_err(|why| {
        MungeFailure::Unavailable(format!("the server cannot run unmunge: {why}"))
    })?;
    read_output(&done.out).unwrap_or_else(|| {
        // Some failures are reported by the exit code only.
        Err(match done.code.and_then(|code| u32::try_from(code).ok()) {
            Some(status) if status > 0 => MungeFailure::Status(status),
            _ => MungeFailure::Unavailable(format!("unmunge said: {}", done.error.trim())),
        })
    })
}

/// Output of a program that has ended.
#[derive(Debug, Default)]
pub(super) struct ProgramOutput {
    pub(super) out: Vec<u8>,
    pub(super) error: String,
    code: Option<i32>,
}

/// Runs a program within limits of time and size.
pub(super) fn run(
    command: &mut Command,
    input: &[u8],
    limit: Duration,
) -> Result<ProgramOutput, String> {
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
        let mut read = ProgramOutput::default();
        if let Some(stdout) = stdout {
            let _ = stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut read.out);
        }
        if let Some(stderr) = stderr {
            let _ = stderr
                .take(OUTPUT_BYTES_MAX)
                .read_to_string(&mut read.error);
        }
        let _ = sender.send(read);
    };
    let reading = std::thread::Builder::new()
        .name("esker-munge".into())
        .spawn(reader);
    let begun = Instant::now();
    let outcome = match &reading {
        Ok(_) => receiver.recv_timeout(limit),
        Err(_) => Err(RecvTimeoutError::Disconnected),
    };
    // Once its output is complete, the program is about to end.
    let mut code = None;
    while outcome.is_ok() && begun.elapsed() < limit {
        if let Ok(Some(status)) = child.try_wait() {
            code = status.code();
            break;
        }
        std::thread::sleep(END_POLL);
    }
    let _ = child.kill();
    let _ = child.wait();
    let read = outcome.map_err(|_| {
        format!(
            "the program `{name}` did not answer within {} ms",
            limit.as_millis()
        )
    })?;
    Ok(ProgramOutput { code, ..read })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_limited_in_time_and_missing_ones_are_named() {
        // Only the program that sleeps reaches a limit.
        let long = Duration::from_mins(5);
        let refused = run(&mut Command::new("no-such-program-7"), b"", long).unwrap_err();
        assert!(refused.contains("not installed"), "{refused}");
        let done = run(&mut Command::new("cat"), b"text", long).unwrap();
        assert_eq!((done.out.as_slice(), done.code), (&b"text"[..], Some(0)));
        let done = run(&mut Command::new("false"), b"", long).unwrap();
        assert_eq!(done.code, Some(1));
        let refused = run(
            Command::new("sleep").arg("600"),
            b"",
            Duration::from_millis(20),
        )
        .unwrap_err();
        assert!(refused.contains("did not answer within 20 ms"), "{refused}");
        let done = run(Command::new("cat").arg("/dev/zero"), b"", long).unwrap();
        assert_eq!(done.out.len() as u64, OUTPUT_BYTES_MAX);
    }
}
