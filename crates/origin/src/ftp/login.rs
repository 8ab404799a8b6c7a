//! Connecting: TLS or GSI, login, and the server's announced features.

use super::FtpSettings;
use super::gsi::{self, Seal};
use super::reply::{Lines, Reply, line};
use super::tls::Tls;
use crate::credentials::Login;
use crate::error::{Error, Result};
use crate::origin_url::{OriginUrl, Scheme};
use crate::stream::{Codec as _, Fault};
use bytes::BytesMut;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A byte stream to the server, plain or encrypted.
pub(super) trait FtpTransport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> FtpTransport for T {}

/// Port of implicit TLS.
const IMPLICIT: u16 = 990;
/// Maximum time between the first reply and the second, of commands that were sent together.
const PIPELINED_REPLY_TIMEOUT: Duration = Duration::from_secs(3);

/// A connection after the login.
pub(super) struct LoggedIn {
    pub(super) wire: Box<dyn FtpTransport>,
    pub(super) lines: Lines,
    pub(super) peer: IpAddr,
    pub(super) tls: Option<Tls>,
    /// Lines of the FEAT reply.
    pub(super) features: Vec<String>,
    /// The server's own description (SYST).
    pub(super) about: String,
}

/// Reasons for a failed login.
pub(super) enum LoginError {
    /// Possibly caused by pipelined commands; retried without pipelining.
    Pipelining(Error),
    Other(Error),
}

impl LoginError {
    pub(super) fn error(self) -> Error {
        match self {
            Self::Pipelining(error) | Self::Other(error) => error,
        }
    }
}

impl From<Error> for LoginError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Commands and replies, one at a time, before the stream starts.
struct LoginChannel {
    wire: Box<dyn FtpTransport>,
    lines: Lines,
    input: BytesMut,
    origin: Box<str>,
    silence: Duration,
}

impl LoginChannel {
    async fn say(&mut self, text: &[u8]) -> Result<()> {
        let sent = timeout(self.silence, async {
            self.wire.write_all(text).await?;
            self.wire.flush().await
        });
        match sent.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.broken(&error.to_string())),
            Err(_) => Err(self.timed_out(self.silence)),
        }
    }

    /// Sends all commands in one write.
    async fn say_all(&mut self, commands: &[&[u8]]) -> Result<()> {
        let mut out = BytesMut::new();
        for command in commands {
            let encoded = self.lines.encode(&line(command), &mut out);
            encoded.map_err(|fault| self.fault(fault))?;
        }
        self.say(&out).await
    }

    async fn reply(&mut self) -> Result<Reply> {
        let within = self.silence;
        self.reply_within(within).await
    }

    /// Reads a reply; the time limit covers all of it.
    async fn reply_within(&mut self, within: Duration) -> Result<Reply> {
        let mut reply = Reply::default();
        let read = timeout(within, async {
            loop {
                let decoded = self.lines.decode(&mut self.input);
                if let Some(line) = decoded.map_err(|fault| self.fault(fault))? {
                    if reply.add(line).map_err(|fault| self.fault(fault))? {
                        return Ok(());
                    }
                    continue;
                }
                if self.input.len() > 64 << 10 {
                    return Err(self.fault(Fault::Protocol("a line without an end".into())));
                }
                match self.wire.read_buf(&mut self.input).await {
                    Ok(0) => return Err(self.broken("the server closed it")),
                    Ok(_) => {}
                    Err(error) => return Err(self.broken(&error.to_string())),
                }
            }
        });
        let read = read.await;
        read.unwrap_or_else(|_| Err(self.timed_out(within)))?;
        Ok(reply)
    }

    async fn request(&mut self, text: &[u8]) -> Result<Reply> {
        self.say_all(&[text]).await?;
        self.reply().await
    }

    fn broken(&self, why: &str) -> Error {
        Error::Broken {
            origin: self.origin.clone(),
            why: why.into(),
        }
    }

    fn timed_out(&self, waited: Duration) -> Error {
        Error::TimedOut {
            origin: self.origin.clone(),
            seconds: waited.as_secs(),
        }
    }

    fn fault(&self, fault: Fault) -> Error {
        let origin = self.origin.clone();
        match fault {
            Fault::Protocol(why) => Error::Protocol { origin, why },
            // A 421 during login means that there are too many connections.
            Fault::Closing(why) => Error::Busy { origin, why },
        }
    }

    fn refused(&self, reply: &Reply, what: &str) -> Error {
        let origin = self.origin.clone();
        if (400..500).contains(&reply.code) {
            let why = reply.printable();
            return Error::Busy { origin, why };
        }
        let why = format!("{} {what}", reply.printable()).into();
        Error::Denied { origin, why }
    }
}

/// Connects and logs in. `one_at_a_time`: no command is sent before the reply to the previous one.
pub(super) async fn connect(
    origin_url: &OriginUrl,
    settings: &FtpSettings,
    login: &Login,
    one_at_a_time: bool,
) -> Result<LoggedIn, LoginError> {
    let origin: Box<str> = origin_url.to_string().into();
    let unreachable = |error: std::io::Error| Error::Unreachable {
        origin: origin.clone(),
        why: error.to_string().into(),
    };
    let tcp = TcpStream::connect((&*origin_url.host, origin_url.port)).await;
    let tcp = tcp.map_err(unreachable)?;
    tcp.set_nodelay(true).map_err(unreachable)?;
    let peer = tcp.peer_addr().map_err(unreachable)?.ip();
    let tls = match origin_url.scheme {
        Scheme::Ftps => Some(Tls::new(
            &origin_url.host,
            settings.trusted.as_deref(),
            &origin,
        )?),
        _ => None,
    };
    let mut talk = LoginChannel {
        wire: Box::new(tcp),
        lines: Lines::default(),
        input: BytesMut::new(),
        origin: origin.clone(),
        silence: settings.silence,
    };
    if let (Some(tls), true) = (&tls, origin_url.port == IMPLICIT) {
        talk.wire = Box::new(tls.wrap(talk.wire).await?);
    }
    let greeting = talk.reply().await?;
    if !greeting.is_well() {
        return Err(talk.refused(&greeting, "").into());
    }
    if let (Some(tls), true) = (&tls, origin_url.port != IMPLICIT) {
        talk = secure(talk, tls).await?;
    }
    let grid = match (&settings.proxy, origin_url.scheme) {
        // If the URL names an account with a known password, that password is used instead of the certificate.
        (Some(proxy), Scheme::GridFtp)
            if login.password.is_empty() || origin_url.user.is_none() =>
        {
            authenticate_gsi(&mut talk, proxy, settings, origin_url).await?
        }
        _ => false,
    };
    if grid {
        let user = origin_url.user.as_deref().unwrap_or(":globus-mapping:");
        let login = Login {
            user: user.into(),
            password: "dummy".into(),
        };
        log_in(&mut talk, &login, origin_url).await?;
    } else {
        if tls.is_none() && !settings.clear_passwords && is_secret(login) {
            return Err(clear_text_error(
                &talk,
                "the password of ~/.netrc would be sent",
                origin_url,
            )
            .into());
        }
        log_in(&mut talk, login, origin_url).await?;
    }
    let (system, features) = probe_features(&mut talk, one_at_a_time).await?;
    if tls.is_some() {
        // Only data channels need it; without it, no listing is requested over a data channel.
        talk.request(b"PBSZ 0").await?;
        talk.request(b"PROT P").await?;
    }
    let greeting = String::from_utf8_lossy(&greeting.text()).into_owned();
    let about = format!(
        "{} ({})",
        crate::error::printable(greeting.as_bytes()),
        system
    );
    if !talk.input.is_empty() {
        let why = "it sent a reply without a request".into();
        return Err(Error::Protocol { origin, why }.into());
    }
    Ok(LoggedIn {
        wire: talk.wire,
        lines: talk.lines,
        peer,
        tls,
        features,
        about,
    })
}

async fn secure(mut talk: LoginChannel, tls: &Tls) -> Result<LoginChannel> {
    let reply = talk.request(b"AUTH TLS").await?;
    if reply.code != 234 {
        return Err(Error::Unsupported {
            origin: talk.origin.clone(),
            why: format!(
                "no TLS: {}; with ftp:// nothing would be encrypted",
                reply.printable()
            )
            .into(),
        });
    }
    // Plain-text input after AUTH TLS was accepted is not from the server.
    if !talk.input.is_empty() {
        return Err(talk.fault(Fault::Protocol(
            "it continues in clear text after AUTH TLS".into(),
        )));
    }
    talk.wire = Box::new(tls.wrap(talk.wire).await?);
    Ok(talk)
}

/// GSI: authenticates by certificate and encrypts everything after. Returns false without a certificate or if the
/// server has no GSI.
async fn authenticate_gsi(
    talk: &mut LoginChannel,
    proxy: &Path,
    settings: &FtpSettings,
    origin_url: &OriginUrl,
) -> Result<bool> {
    let Some(mut seal) = Seal::new(proxy, settings.grid.as_deref(), origin_url)? else {
        return Ok(false);
    };
    let reply = talk.request(b"AUTH GSSAPI").await?;
    if reply.code != 334 {
        if settings.clear_passwords {
            return Ok(false);
        }
        // An attacker may have sent the refusal in place of the server.
        let what = format!(
            "it refuses GSI ({}), and what follows would be sent",
            reply.printable()
        );
        return Err(clear_text_error(talk, &what, origin_url));
    }
    let mut answer = Vec::new();
    // A handshake needs only a few steps.
    for _ in 0..20 {
        let token = seal.step(&answer).map_err(|why| Error::Denied {
            origin: talk.origin.clone(),
            why: format!("GSI: {why}").into(),
        })?;
        let reply = talk.request(&gsi::adat(&token)).await?;
        if !matches!(reply.code, 235 | 335) {
            return Err(talk.refused(&reply, "(by GSI; is the proxy certificate still valid?)"));
        }
        answer = gsi::token(&reply.text()).map_err(|fault| talk.fault(fault))?;
        if reply.code == 235 {
            seal.step(&answer).map_err(|why| Error::Denied {
                origin: talk.origin.clone(),
                why: format!("GSI: {why}").into(),
            })?;
            if !seal.is_whole() {
                let why = "GSI: it ends before both sides are authenticated".into();
                return Err(talk.fault(Fault::Protocol(why)));
            }
            talk.lines.seal = Some(Box::new(seal));
            return Ok(true);
        }
    }
    Err(talk.fault(Fault::Protocol("GSI authentication does not end".into())))
}

/// Whether the login has a secret password.
fn is_secret(login: &Login) -> bool {
    let open = ["anonymous", "ftp"].contains(&&*login.user);
    !open && !login.password.is_empty()
}

/// The error for a secret that would be sent in clear text.
fn clear_text_error(talk: &LoginChannel, what: &str, origin_url: &OriginUrl) -> Error {
    let safe = match origin_url.scheme {
        Scheme::GridFtp => "make a proxy certificate (grid-proxy-init)",
        _ => "use ftps://",
    };
    Error::Denied {
        origin: talk.origin.clone(),
        why: format!(
            "{what} over the network in clear text, where others can read it: {safe}, or allow it (--clear-passwords; of a tier, \
             [origins] clear_passwords)"
        )
        .into(),
    }
}

async fn log_in(talk: &mut LoginChannel, login: &Login, origin_url: &OriginUrl) -> Result<()> {
    let proxy = match origin_url.scheme {
        Scheme::GridFtp => "; or make a proxy certificate (grid-proxy-init)",
        _ => "",
    };
    let help = format!(
        "(as `{}`); name another user in the URL, and its password in ~/.netrc: machine {} login USER password …{proxy}",
        login.user,
        if origin_url.port == origin_url.scheme.port() {
            origin_url.host.to_string()
        } else {
            origin_url.authority()
        }
    );
    let wrong = |text: &str| text.chars().any(char::is_control);
    if wrong(&login.user) || wrong(&login.password) {
        return Err(Error::InvalidName {
            what: origin_url.to_string().into(),
            why: "the user or the password has control characters".into(),
        });
    }
    let mut reply = talk
        .request(format!("USER {}", login.user).as_bytes())
        .await?;
    if reply.code == 331 {
        reply = talk
            .request(format!("PASS {}", login.password).as_bytes())
            .await?;
    }
    if reply.code == 332 {
        return Err(talk.refused(
            &reply,
            "it also requires an account, which Esker does not support",
        ));
    }
    if !reply.is_well() {
        return Err(talk.refused(&reply, &help));
    }
    Ok(())
}

/// Queries the server's type and features with pipelined commands, which also tests whether it supports pipelining.
async fn probe_features(
    talk: &mut LoginChannel,
    one_at_a_time: bool,
) -> Result<(String, Vec<String>), LoginError> {
    const QUESTIONS: [&[u8]; 5] = [b"SYST", b"TYPE I", b"OPTS UTF8 ON", b"PWD", b"FEAT"];
    let mut replies = Vec::new();
    if one_at_a_time {
        for request in QUESTIONS {
            replies.push(talk.request(request).await?);
        }
    } else {
        let began = Instant::now();
        talk.say_all(&QUESTIONS).await?;
        replies.push(talk.reply().await?);
        let within = (PIPELINED_REPLY_TIMEOUT + began.elapsed() * 2).min(talk.silence);
        while replies.len() < QUESTIONS.len() {
            let reply = talk.reply_within(within).await;
            replies.push(reply.map_err(LoginError::Pipelining)?);
        }
        let codes = replies.iter().map(|r| r.code);
        if codes.clone().all(|code| code >= 500) || !matches!(replies[4].code, 211 | 500..=599) {
            // A server whose replies do not match may have lost its position in the pipelined commands.
            return Err(LoginError::Pipelining(Error::Protocol {
                origin: talk.origin.clone(),
                why: format!("codes {:?} to {QUESTIONS:?}", codes.collect::<Vec<_>>()).into(),
            }));
        }
    }
    let text = |reply: &Reply| String::from_utf8_lossy(&reply.text()).into_owned();
    let system = text(&replies[0]);
    let mut features = Vec::new();
    if replies[4].is_well() {
        let lines = replies[4].lines.iter().skip(1);
        features.extend(lines.map(|line| String::from_utf8_lossy(line).trim().to_owned()));
    }
    // Asks for all available facts that are used.
    let mlst = features
        .iter()
        .find(|f| f.to_ascii_lowercase().starts_with("mlst "));
    if let Some(mlst) = mlst {
        let wanted = wanted_facts(mlst);
        if !wanted.is_empty() {
            talk.request(format!("OPTS MLST {wanted}").as_bytes())
                .await?;
        }
    }
    Ok((crate::error::printable(system.as_bytes()).into(), features))
}

/// The facts that are used.
const USEFUL: [&str; 12] = [
    "type",
    "size",
    "modify",
    "perm",
    "unique",
    "unix.mode",
    "unix.owner",
    "unix.uid",
    "unix.group",
    "unix.gid",
    "unix.slink",
    "sizd",
];

/// Returns the used facts that a server offers but does not send by default; empty if none.
fn wanted_facts(mlst: &str) -> String {
    let facts = mlst.get(5..).unwrap_or_default();
    let facts: Vec<&str> = facts
        .split(';')
        .map(str::trim)
        .filter(|f| !f.is_empty())
        .collect();
    let useful = |fact: &&str| {
        let fact = fact.trim_end_matches('*').to_ascii_lowercase();
        USEFUL.contains(&fact.as_str())
    };
    let missing = facts
        .iter()
        .filter(|f| useful(f))
        .any(|fact| !fact.ends_with('*'));
    if !missing {
        return String::new();
    }
    let all = facts.iter().filter(|f| useful(f));
    all.flat_map(|fact| [fact.trim_end_matches('*'), ";"])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_are_there_but_not_sent_are_asked_for() {
        assert_eq!(wanted_facts("MLST type*;size*;modify*;"), "");
        assert_eq!(wanted_facts("MLST Type*;Size;X.count;"), "Type;Size;");
        assert_eq!(wanted_facts("MLST"), "");
    }
}
