//! The `ssh` child process of a connection, and its error messages.

use super::session::{Carrier, SftpSession};
use crate::error::{Error, Result, printable};
use crate::origin_url::OriginUrl;
use crate::session::{Connect, Session};
use futures_util::future::BoxFuture;
use std::ffi::OsString;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Maximum size in bytes of the last `ssh` messages that are kept; banners before them may be long.
const WORDS_MAX: usize = 4096;
/// Time to wait for the last messages of an `ssh` that has closed its output.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Options: no prompts, no forwarding, no local commands, and detection of dead servers.
const OPTIONS: [&str; 12] = [
    "-x",
    "-a",
    "-oBatchMode=yes",
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=2",
    "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no",
    "-oRemoteCommand=none",
    "-oRequestTTY=no",
    // An existing shared connection is used; this process does not become the master, which would outlive its parent.
    "-oControlMaster=no",
    "-oStdinNull=no",
    "-oForkAfterAuthentication=no",
];

/// An SFTP server as an origin.
#[derive(Debug)]
pub struct Sftp {
    origin_url: OriginUrl,
    program: Vec<OsString>,
    silence: Duration,
}

impl Sftp {
    /// Creates the origin with the `ssh` of this machine or the program that `ESKER_SSH` names.
    pub fn new(origin_url: OriginUrl) -> Result<Self> {
        let program = match esker_rpc::environment::variable("ESKER_SSH") {
            Some(text) if !text.is_empty() => split_words(&text),
            _ => vec!["ssh".into()],
        };
        let bad = |why: &str| Error::InvalidName {
            what: origin_url.to_string().into(),
            why: why.into(),
        };
        if program.is_empty() {
            return Err(bad("ESKER_SSH is blank; give a program, or unset it"));
        }
        // The name becomes part of commands in ssh_config (`ProxyCommand nc %h %p`), which a shell reads.
        let sound = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || ".-_:%".contains(c);
        if origin_url.host.is_empty()
            || origin_url.host.starts_with('-')
            || !origin_url.host.chars().all(sound)
        {
            return Err(bad(
                "this is not a host name; it has letters, digits, dots and hyphens, and does not begin with a hyphen",
            ));
        }
        let odd = |c: char| c.is_control() || c.is_whitespace() || "'\"`$\\;&|<>(){}".contains(c);
        if let Some(user) = &origin_url.user
            && (user.starts_with('-') || user.chars().any(odd))
        {
            return Err(bad(
                "this is not a user name: it begins with a hyphen or has spaces, quotes or other signs of shells",
            ));
        }
        Ok(Self {
            origin_url,
            program,
            silence: Duration::from_secs(20),
        })
    }

    /// Replaces `ssh` by another program with its first arguments.
    #[must_use]
    pub fn with_program(mut self, program: impl IntoIterator<Item = OsString>) -> Self {
        self.program = program.into_iter().collect();
        self
    }

    /// Sets the time after which a connection with an open request and no input has failed; 20 s by default.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    fn command(&self) -> Command {
        let mut program = self.program.iter();
        // Never empty: all constructors check it.
        let mut command = Command::new(program.next().map_or("ssh".as_ref(), OsString::as_os_str));
        command.args(program).args(OPTIONS);
        // Without a port in the URL, ssh_config may define it.
        if self.origin_url.port != self.origin_url.scheme.port() {
            command.arg("-p").arg(self.origin_url.port.to_string());
        }
        if let Some(user) = &self.origin_url.user {
            command.arg("-l").arg(&**user);
        }
        command.args(["-s", "--", &self.origin_url.host, "sftp"]);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    async fn begin(&self) -> Result<Arc<dyn Session>> {
        let origin: Box<str> = self.origin_url.to_string().into();
        let unreachable = |why: String| Error::Unreachable {
            origin: origin.clone(),
            why: why.into(),
        };
        let mut command = self.command();
        let program = command
            .as_std()
            .get_program()
            .to_string_lossy()
            .into_owned();
        let mut child = command.spawn().map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => Error::Unsupported {
                origin: origin.clone(),
                why: format!("there is no executable `{program}` here; install OpenSSH's client, or set ESKER_SSH")
                    .into(),
            },
            _ => unreachable(format!("`{program}` does not start: {e}")),
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(to), Some(from), Some(errors)) = pipes else {
            return Err(unreachable(format!("`{program}` has no pipes")));
        };
        let carrier = Ssh::new(origin.clone(), child, errors);
        let talk = SftpSession::begin(origin, from, to, carrier, self.silence).await?;
        Ok(Arc::new(talk))
    }
}

/// Splits at spaces; paths with spaces cannot be expressed.
fn split_words(text: &std::ffi::OsStr) -> Vec<OsString> {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let parts = text.as_bytes().split(u8::is_ascii_whitespace);
    let parts = parts.filter(|part| !part.is_empty());
    parts
        .map(|part| OsString::from_vec(part.to_vec()))
        .collect()
}

impl Connect for Sftp {
    fn origin_url(&self) -> &OriginUrl {
        &self.origin_url
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(self.begin())
    }
}

/// A running `ssh`, killed on drop.
struct Ssh {
    origin: Box<str>,
    _child: Child,
    messages: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Drop for Ssh {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Ssh {
    fn new(origin: Box<str>, child: Child, errors: ChildStderr) -> Self {
        let messages = Arc::default();
        let reader = tokio::spawn(listen(errors, Arc::clone(&messages)));
        Self {
            origin,
            _child: child,
            messages,
            reader,
        }
    }
}

async fn listen(mut errors: ChildStderr, messages: Arc<Mutex<Vec<u8>>>) {
    let mut part = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut part).await {
        let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.extend_from_slice(&part[..count]);
        let over = messages.len().saturating_sub(WORDS_MAX);
        messages.drain(..over);
    }
}

impl Carrier for Ssh {
    fn ended(&mut self, why: String, greeted: bool) -> BoxFuture<'_, Error> {
        Box::pin(async move {
            // After the time limit, the messages so far are used.
            let _ = timeout(LAST_WORDS, &mut self.reader).await;
            let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
            classify_failure(&self.origin, &messages, &why, greeted)
        })
    }
}

/// Failure messages of `ssh`, their error kind, and advice.
const SSH_FAILURES: [(&str, SshFailure, &str); 13] = [
    (
        "host key verification failed",
        SshFailure::Denied,
        "connect once by hand with `ssh`, compare the key's fingerprint with the one that the site publishes, and accept it",
    ),
    (
        "remote host identification has changed",
        SshFailure::Denied,
        "ask the site whether its key is new before you remove the old one with `ssh-keygen -R HOST`",
    ),
    (
        "too many authentication failures",
        SshFailure::Denied,
        "name the one right key in ~/.ssh/config with IdentityFile and IdentitiesOnly",
    ),
    (
        "permission denied (",
        SshFailure::Denied,
        "`ssh HOST` must work without a prompt: load a key into your agent, or name it in ~/.ssh/config",
    ),
    (
        "unable to negotiate",
        SshFailure::Denied,
        "the two sides share no algorithm; allow one in ~/.ssh/config",
    ),
    (
        "subsystem request failed",
        SshFailure::Unsupported,
        "the server lets you in but offers no SFTP",
    ),
    (
        "bad configuration option",
        SshFailure::Denied,
        "correct ~/.ssh/config, or name another with ESKER_SSH=\"ssh -F FILE\"",
    ),
    (
        "bad owner or permissions",
        SshFailure::Denied,
        "`chmod go-w` the file",
    ),
    (
        "could not resolve hostname",
        SshFailure::Unreachable,
        "is the host's name right?",
    ),
    (
        "connection refused",
        SshFailure::Unreachable,
        "is the port right?",
    ),
    ("timed out", SshFailure::Unreachable, ""),
    ("no route to host", SshFailure::Unreachable, ""),
    ("network is unreachable", SshFailure::Unreachable, ""),
];

#[derive(Clone, Copy)]
enum SshFailure {
    Denied,
    Unsupported,
    Unreachable,
}

fn classify_failure(origin: &str, messages: &[u8], why: &str, greeted: bool) -> Error {
    let text = String::from_utf8_lossy(messages);
    let low = text.to_lowercase();
    let known = SSH_FAILURES.iter().find(|(said, ..)| low.contains(said));
    // The last lines are about the end; earlier ones may be a banner or warnings.
    let mut lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    if let Some((said, ..)) = known
        && let Some(line) = lines.iter().find(|l| l.to_lowercase().contains(said))
    {
        lines = vec![line];
    }
    lines.drain(..lines.len().saturating_sub(2));
    let mut told = lines.join("; ");
    if told.is_empty() {
        told = format!("ssh ended without a word: {why}");
    }
    let mut told = printable(told.as_bytes());
    let origin: Box<str> = origin.into();
    // After the greeting, a broken connection can be retried, regardless of the messages.
    let Some((_, failure, help)) = known.filter(|_| !greeted) else {
        return if greeted {
            Error::Broken { origin, why: told }
        } else {
            Error::Unreachable { origin, why: told }
        };
    };
    if !help.is_empty() {
        told = format!("{told} ({help})").into();
    }
    match failure {
        SshFailure::Denied => Error::Denied { origin, why: told },
        SshFailure::Unsupported => Error::Unsupported { origin, why: told },
        SshFailure::Unreachable => Error::Unreachable { origin, why: told },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sftp(url: &str) -> Result<Sftp> {
        Sftp::new(OriginUrl::parse(url).unwrap().0)
    }

    #[test]
    fn a_host_is_never_an_option() {
        let mut origin_url = OriginUrl::parse("sftp://host/").unwrap().0;
        for host in ["-oProxyCommand=x", "", "a b", "a;b", "$(x)", "a`b`"] {
            origin_url.host = host.into();
            let error = Sftp::new(origin_url.clone()).unwrap_err();
            assert!(matches!(error, Error::InvalidName { .. }), "{error}");
        }
        for user in ["-x", "a b", "$(x)"] {
            let (host, user) = ("host".into(), Some(user.into()));
            let origin_url = OriginUrl {
                user,
                host,
                ..origin_url.clone()
            };
            assert!(Sftp::new(origin_url).is_err());
        }
    }

    #[test]
    fn a_port_that_nobody_named_is_left_to_ssh_config() {
        let arguments = |url: &str| {
            let sftp = sftp(url).unwrap().with_program(["ssh".into()]);
            let command = sftp.command();
            let arguments = command.as_std().get_args();
            let arguments: Vec<String> = arguments.map(|a| a.to_str().unwrap().into()).collect();
            arguments[OPTIONS.len()..].join(" ")
        };
        assert_eq!(arguments("sftp://host/"), "-s -- host sftp");
        assert_eq!(
            arguments("sftp://ann@[::1]:2222/"),
            "-p 2222 -l ann -s -- ::1 sftp"
        );
    }

    #[test]
    fn words_of_ssh_become_errors_that_help() {
        let told = |messages: &str, greeted| {
            classify_failure("sftp://h", messages.as_bytes(), "end", greeted)
        };
        let banner = "Welcome!\nuser@h: Permission denied (publickey).\n";
        let error = told(banner, false);
        assert!(matches!(error, Error::Denied { .. }));
        assert_eq!(
            error.to_string(),
            "sftp://h refuses: user@h: Permission denied (publickey). (`ssh HOST` must work \
             without a prompt: load a key into your agent, or name it in ~/.ssh/config)"
        );
        assert!(told("ssh: connect to host h port 1: Connection refused", false).is_transient());
        assert!(told("", false).is_transient());
        assert!(matches!(told(banner, true), Error::Broken { .. }));
        assert!(matches!(
            told("subsystem request failed on channel 0", false),
            Error::Unsupported { .. }
        ));
    }
}
