//! Processes that run `unmunge` for a server whose sandbox forbids to start programs.
//!
//! A helper reads one credential per line from standard input. It answers each by one line: `user UID PAYLOAD`, `status N` or
//! `failed MESSAGE`. It ends with its standard input, and so with the server.

use super::output::{CREDENTIAL_BYTES_MAX, MungeFailure, MungeUser, is_credential};
use super::program::unmunge;
use esker_model::{Error, Result};
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// A helper process with its pipes.
#[derive(Debug)]
pub(super) struct Helper {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Helper {
    pub(super) fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let failed = |e| Error::io("starting a process that decodes Munge credentials", e);
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let ends = child.stdin.take().zip(child.stdout.take());
        let (input, output) = ends.ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    pub(super) fn decode(
        &mut self,
        credential: &str,
    ) -> std::result::Result<MungeUser, MungeFailure> {
        let answer = self.request(credential).ok();
        let decoded = answer.and_then(|line| read_answer(line.trim_end_matches('\n')));
        decoded.unwrap_or_else(|| {
            let status = self.child.try_wait().ok().flatten();
            let status = status.map_or_else(String::new, |status| format!(" ({status})"));
            Err(MungeFailure::Unavailable(format!(
                "the server's process that decodes Munge credentials has ended{status}: restart the server"
            )))
        })
    }

    /// Sends a credential and reads the answer. The helper itself limits the time of `unmunge`.
    fn request(&mut self, credential: &str) -> std::io::Result<String> {
        writeln!(self.input, "{credential}")?;
        self.input.flush()?;
        let mut line = String::new();
        let mut limited = (&mut self.output).take(ANSWER_BYTES_MAX);
        limited.read_line(&mut line)?;
        Ok(line)
    }
}

fn read_answer(line: &str) -> Option<std::result::Result<MungeUser, MungeFailure>> {
    let (kind, rest) = line.split_once(' ')?;
    Some(match kind {
        "user" => {
            let (uid, payload) = rest.split_once(' ')?;
            Ok(MungeUser {
                uid: uid.parse().ok()?,
                payload: payload.as_bytes().to_vec(),
            })
        }
        "status" => Err(MungeFailure::Status(rest.parse().ok()?)),
        "failed" => Err(MungeFailure::Unavailable(rest.to_owned())),
        _ => return None,
    })
}

fn answer_text(decoded: std::result::Result<MungeUser, MungeFailure>) -> String {
    match decoded {
        Ok(MungeUser { uid, payload }) => {
            // Payloads of Esker are one line of text; others are refused anyway.
            let text = String::from_utf8_lossy(&payload).replace(['\n', '\r'], " ");
            format!("user {uid} {text}")
        }
        Err(MungeFailure::Status(status)) => format!("status {status}"),
        Err(MungeFailure::Unavailable(why)) => format!("failed {}", why.replace('\n', " ")),
    }
}

/// Runs a helper until its input ends: decodes the credential of each line by `unmunge`.
pub fn serve_helper(
    socket: Option<&Path>,
    mut input: impl BufRead,
    mut output: impl Write,
) -> std::io::Result<()> {
    loop {
        let mut line = String::new();
        let most = CREDENTIAL_BYTES_MAX as u64 + 1;
        if (&mut input).take(most).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let credential = line.trim();
        let decoded = if is_credential(credential) {
            unmunge(credential, socket)
        } else {
            Err(MungeFailure::Status(8))
        };
        writeln!(output, "{}", answer_text(decoded))?;
        output.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back() {
        let user = MungeUser {
            uid: 1001,
            payload: b"esker-munge@1 00ff".to_vec(),
        };
        for decoded in [
            Ok(user),
            Err(MungeFailure::Status(17)),
            Err(MungeFailure::Unavailable("a b".into())),
        ] {
            let line = answer_text(decoded.clone());
            assert_eq!(read_answer(&line), Some(decoded));
        }
        assert_eq!(read_answer(""), None);
        assert_eq!(read_answer("user x y"), None);
    }

    #[test]
    fn a_helper_answers_each_line_until_its_input_ends() {
        let mut out = Vec::new();
        serve_helper(None, &b"nonsense\n-S /x\n"[..], &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "status 8\nstatus 8\n");
    }

    #[test]
    fn a_helper_that_ended_is_named() {
        let mut helper = Helper::start(Path::new("/bin/true"), &[]).unwrap();
        let refused = helper.decode("MUNGE:a:").unwrap_err().to_string();
        assert!(refused.contains("restart the server"), "{refused}");
    }
}
