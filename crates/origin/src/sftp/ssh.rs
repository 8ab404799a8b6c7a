//! The child process that carries a connection, and what its words mean.

use super::session::{Carrier, Talk};
use crate::error::{Error, Result, shown};
use crate::place::Place;
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

/// What `ssh` said last is kept; banners before it may be long.
const WORDS_MAX: usize = 4096;
/// How long is waited for the last words of an `ssh` that has closed its output.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Never asks anyone, forwards nothing, runs nothing here, and finds out by itself when the other side is gone.
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
    // A shared connection that somebody has opened is used; this process becomes none, for it would outlive its parent.
    "-oControlMaster=no",
    "-oStdinNull=no",
    "-oForkAfterAuthentication=no",
];

/// Connections to a server of SFTP.
#[derive(Debug)]
pub struct Sftp {
    place: Place,
    program: Vec<OsString>,
    silence: Duration,
}

impl Sftp {
    /// To a place, with the `ssh` of this machine or the one that `ESKER_SSH` names.
    pub fn new(place: Place) -> Result<Self> {
        let program = match esker_rpc::environment::variable("ESKER_SSH") {
            Some(text) if !text.is_empty() => words(&text),
            _ => vec!["ssh".into()],
        };
        let bad = |why: &str| Error::Named {
            what: place.to_string().into(),
            why: why.into(),
        };
        if program.is_empty() {
            return Err(bad("ESKER_SSH is blank; give a program, or unset it"));
        }
        // The name becomes part of commands in people's ssh_config (`ProxyCommand nc %h %p`), which a shell reads.
        let sound = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || ".-_:%".contains(c);
        if place.host.is_empty() || place.host.starts_with('-') || !place.host.chars().all(sound) {
            return Err(bad(
                "this is no name of a host; it has letters, digits, dots and hyphens and begins with none of the latter",
            ));
        }
        let odd = |c: char| c.is_control() || c.is_whitespace() || "'\"`$\\;&|<>(){}".contains(c);
        if let Some(user) = &place.user
            && (user.starts_with('-') || user.chars().any(odd))
        {
            return Err(bad(
                "this is no name of a user: it begins with a hyphen or has spaces, quotes or other signs of shells",
            ));
        }
        Ok(Self {
            place,
            program,
            silence: Duration::from_secs(20),
        })
    }

    /// With another program in place of `ssh`, and its first arguments.
    #[must_use]
    pub fn with_program(mut self, program: impl IntoIterator<Item = OsString>) -> Self {
        self.program = program.into_iter().collect();
        self
    }

    /// Gives a connection up when nothing came on it for this long although something was asked; 20 s if nothing is said.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    fn command(&self) -> Command {
        let mut program = self.program.iter();
        // There is one: all that make this see to it.
        let mut command = Command::new(program.next().map_or("ssh".as_ref(), OsString::as_os_str));
        command.args(program).args(OPTIONS);
        // Without a port in the URL, ssh_config may know it.
        if self.place.port != self.place.scheme.port() {
            command.arg("-p").arg(self.place.port.to_string());
        }
        if let Some(user) = &self.place.user {
            command.arg("-l").arg(&**user);
        }
        command.args(["-s", "--", &self.place.host, "sftp"]);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    async fn begin(&self) -> Result<Arc<dyn Session>> {
        let origin: Box<str> = self.place.to_string().into();
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
                why: format!("there is no program `{program}` that may be run here; install OpenSSH's client, or set ESKER_SSH")
                    .into(),
            },
            _ => unreachable(format!("`{program}` does not start: {e}")),
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(to), Some(from), Some(errors)) = pipes else {
            return Err(unreachable(format!("`{program}` has no pipes")));
        };
        let carrier = Ssh::new(origin.clone(), child, errors);
        let talk = Talk::begin(origin, from, to, carrier, self.silence).await?;
        Ok(Arc::new(talk))
    }
}

/// Parted by spaces; paths with spaces cannot be said so.
fn words(text: &std::ffi::OsStr) -> Vec<OsString> {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let parts = text.as_bytes().split(u8::is_ascii_whitespace);
    let parts = parts.filter(|part| !part.is_empty());
    parts
        .map(|part| OsString::from_vec(part.to_vec()))
        .collect()
}

impl Connect for Sftp {
    fn place(&self) -> &Place {
        &self.place
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(self.begin())
    }
}

/// A running `ssh`. It is killed when this is dropped.
struct Ssh {
    origin: Box<str>,
    _child: Child,
    words: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Drop for Ssh {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Ssh {
    fn new(origin: Box<str>, child: Child, errors: ChildStderr) -> Self {
        let words = Arc::default();
        let reader = tokio::spawn(listen(errors, Arc::clone(&words)));
        Self {
            origin,
            _child: child,
            words,
            reader,
        }
    }
}

async fn listen(mut errors: ChildStderr, words: Arc<Mutex<Vec<u8>>>) {
    let mut part = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut part).await {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(&part[..count]);
        let over = words.len().saturating_sub(WORDS_MAX);
        words.drain(..over);
    }
}

impl Carrier for Ssh {
    fn ended(&mut self, why: String, greeted: bool) -> BoxFuture<'_, Error> {
        Box::pin(async move {
            // Whether it is over or not, what was said so far is all there is.
            let _ = timeout(LAST_WORDS, &mut self.reader).await;
            let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
            meant(&self.origin, &words, &why, greeted)
        })
    }
}

/// What `ssh` says when it fails, what that is to whoever asks, and what helps.
const MEANT: [(&str, Meant, &str); 13] = [
    (
        "host key verification failed",
        Meant::Denied,
        "connect once by hand with `ssh`, compare the key's fingerprint with the one that the site publishes, and accept it",
    ),
    (
        "remote host identification has changed",
        Meant::Denied,
        "ask the site whether its key is new before you remove the old one with `ssh-keygen -R HOST`",
    ),
    (
        "too many authentication failures",
        Meant::Denied,
        "name the one right key in ~/.ssh/config with IdentityFile and IdentitiesOnly",
    ),
    (
        "permission denied (",
        Meant::Denied,
        "`ssh HOST` has to work without a question: load a key into your agent, or name it in ~/.ssh/config",
    ),
    (
        "unable to negotiate",
        Meant::Denied,
        "the two sides share no algorithm; allow one in ~/.ssh/config",
    ),
    (
        "subsystem request failed",
        Meant::Unsupported,
        "the server lets you in but offers no SFTP",
    ),
    (
        "bad configuration option",
        Meant::Denied,
        "mend ~/.ssh/config, or name another with ESKER_SSH=\"ssh -F FILE\"",
    ),
    (
        "bad owner or permissions",
        Meant::Denied,
        "`chmod go-w` the file",
    ),
    (
        "could not resolve hostname",
        Meant::Unreachable,
        "is the host's name right?",
    ),
    (
        "connection refused",
        Meant::Unreachable,
        "is the port right?",
    ),
    ("timed out", Meant::Unreachable, ""),
    ("no route to host", Meant::Unreachable, ""),
    ("network is unreachable", Meant::Unreachable, ""),
];

#[derive(Clone, Copy)]
enum Meant {
    Denied,
    Unsupported,
    Unreachable,
}

fn meant(origin: &str, words: &[u8], why: &str, greeted: bool) -> Error {
    let text = String::from_utf8_lossy(words);
    let low = text.to_lowercase();
    let known = MEANT.iter().find(|(said, ..)| low.contains(said));
    // The last lines are about the end; those before may be a banner or warnings.
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
    let mut told = shown(told.as_bytes());
    let origin: Box<str> = origin.into();
    // Once the server has greeted, a broken connection is one that may be made again, whatever the words.
    let Some((_, meant, help)) = known.filter(|_| !greeted) else {
        return if greeted {
            Error::Broken { origin, why: told }
        } else {
            Error::Unreachable { origin, why: told }
        };
    };
    if !help.is_empty() {
        told = format!("{told} ({help})").into();
    }
    match meant {
        Meant::Denied => Error::Denied { origin, why: told },
        Meant::Unsupported => Error::Unsupported { origin, why: told },
        Meant::Unreachable => Error::Unreachable { origin, why: told },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sftp(url: &str) -> Result<Sftp> {
        Sftp::new(Place::parse(url).unwrap().0)
    }

    #[test]
    fn a_host_is_never_an_option() {
        let mut place = Place::parse("sftp://host/").unwrap().0;
        for host in ["-oProxyCommand=x", "", "a b", "a;b", "$(x)", "a`b`"] {
            place.host = host.into();
            let error = Sftp::new(place.clone()).unwrap_err();
            assert!(matches!(error, Error::Named { .. }), "{error}");
        }
        for user in ["-x", "a b", "$(x)"] {
            let (host, user) = ("host".into(), Some(user.into()));
            let place = Place {
                user,
                host,
                ..place.clone()
            };
            assert!(Sftp::new(place).is_err());
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
        let told = |words: &str, greeted| meant("sftp://h", words.as_bytes(), "end", greeted);
        let banner = "Welcome!\nuser@h: Permission denied (publickey).\n";
        let error = told(banner, false);
        assert!(matches!(error, Error::Denied { .. }));
        assert_eq!(
            error.to_string(),
            "sftp://h refuses: user@h: Permission denied (publickey). (`ssh HOST` has to work without a question: load a key into your \
             agent, or name it in ~/.ssh/config)"
        );
        assert!(told("ssh: connect to host h port 1: Connection refused", false).is_passing());
        assert!(told("", false).is_passing());
        assert!(matches!(told(banner, true), Error::Broken { .. }));
        assert!(matches!(
            told("subsystem request failed on channel 0", false),
            Error::Unsupported { .. }
        ));
    }
}
