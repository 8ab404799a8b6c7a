//! From a connection to a server that knows who asks, and of which it is known what it says that it can do.

use super::Settings;
use super::gsi::{self, Seal};
use super::reply::{Lines, Reply, line};
use super::tls::Tls;
use crate::credentials::Login;
use crate::error::{Error, Result};
use crate::place::{Place, Scheme};
use crate::stream::{Codec as _, Fault};
use bytes::BytesMut;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection, whatever is below it.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// The port on which TLS begins without being asked for.
const IMPLICIT: u16 = 990;
/// How long the second reply may take after the first, of commands that were sent together.
const AHEAD: Duration = Duration::from_secs(3);

/// What a login came to.
pub(super) struct Made {
    pub(super) wire: Box<dyn Wire>,
    pub(super) lines: Lines,
    pub(super) peer: IpAddr,
    pub(super) tls: Option<Tls>,
    /// Lines of FEAT.
    pub(super) features: Vec<String>,
    /// What it calls itself.
    pub(super) about: String,
}

/// Why there is no login.
pub(super) enum Failed {
    /// Perhaps because commands were sent ahead of replies.
    Ahead(Error),
    Other(Error),
}

impl Failed {
    pub(super) fn error(self) -> Error {
        match self {
            Self::Ahead(error) | Self::Other(error) => error,
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Commands and replies, one at a time, before there is a stream.
struct Talk {
    wire: Box<dyn Wire>,
    lines: Lines,
    input: BytesMut,
    origin: Box<str>,
    silence: Duration,
}

impl Talk {
    async fn say(&mut self, text: &[u8]) -> Result<()> {
        let sent = timeout(self.silence, async {
            self.wire.write_all(text).await?;
            self.wire.flush().await
        });
        match sent.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.broken(&error.to_string())),
            Err(_) => Err(self.late(self.silence)),
        }
    }

    /// In one write.
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

    /// All of it within the time, however it comes.
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
                    return Err(self.fault(Fault::Nonsense("a line without an end".into())));
                }
                match self.wire.read_buf(&mut self.input).await {
                    Ok(0) => return Err(self.broken("the server closed it")),
                    Ok(_) => {}
                    Err(error) => return Err(self.broken(&error.to_string())),
                }
            }
        });
        let read = read.await;
        read.unwrap_or_else(|_| Err(self.late(within)))?;
        Ok(reply)
    }

    async fn ask(&mut self, text: &[u8]) -> Result<Reply> {
        self.say_all(&[text]).await?;
        self.reply().await
    }

    fn broken(&self, why: &str) -> Error {
        Error::Broken {
            origin: self.origin.clone(),
            why: why.into(),
        }
    }

    fn late(&self, waited: Duration) -> Error {
        Error::Late {
            origin: self.origin.clone(),
            seconds: waited.as_secs(),
        }
    }

    fn fault(&self, fault: Fault) -> Error {
        let origin = self.origin.clone();
        match fault {
            Fault::Nonsense(why) => Error::Nonsense { origin, why },
            // Said while logging in, it means that there are too many already.
            Fault::Closing(why) => Error::Busy { origin, why },
        }
    }

    fn refused(&self, reply: &Reply, what: &str) -> Error {
        let origin = self.origin.clone();
        if (400..500).contains(&reply.code) {
            let why = reply.shown();
            return Error::Busy { origin, why };
        }
        let why = format!("{} {what}", reply.shown()).into();
        Error::Denied { origin, why }
    }
}

/// Connects and logs in. `one_at_a_time`: no command goes out before the last one's reply has come.
pub(super) async fn connect(
    place: &Place,
    settings: &Settings,
    login: &Login,
    one_at_a_time: bool,
) -> Result<Made, Failed> {
    let origin: Box<str> = place.to_string().into();
    let unreachable = |error: std::io::Error| Error::Unreachable {
        origin: origin.clone(),
        why: error.to_string().into(),
    };
    let tcp = TcpStream::connect((&*place.host, place.port)).await;
    let tcp = tcp.map_err(unreachable)?;
    tcp.set_nodelay(true).map_err(unreachable)?;
    let peer = tcp.peer_addr().map_err(unreachable)?.ip();
    let tls = match place.scheme {
        Scheme::Ftps => Some(Tls::new(&place.host, settings.trusted.as_deref(), &origin)?),
        _ => None,
    };
    let mut talk = Talk {
        wire: Box::new(tcp),
        lines: Lines::default(),
        input: BytesMut::new(),
        origin: origin.clone(),
        silence: settings.silence,
    };
    if let (Some(tls), true) = (&tls, place.port == IMPLICIT) {
        talk.wire = Box::new(tls.wrap(talk.wire).await?);
    }
    let greeting = talk.reply().await?;
    if !greeting.is_well() {
        return Err(talk.refused(&greeting, "").into());
    }
    if let (Some(tls), true) = (&tls, place.port != IMPLICIT) {
        talk = secure(talk, tls).await?;
    }
    let grid = match (&settings.proxy, place.scheme) {
        // Who names an account whose password is known goes in by that.
        (Some(proxy), Scheme::GridFtp) if login.password.is_empty() || place.user.is_none() => {
            known_by(&mut talk, proxy, settings, place).await?
        }
        _ => false,
    };
    if grid {
        let user = place.user.as_deref().unwrap_or(":globus-mapping:");
        let login = Login {
            user: user.into(),
            password: "dummy".into(),
        };
        enter(&mut talk, &login, place).await?;
    } else {
        if tls.is_none() && !settings.clear_passwords && is_secret(login) {
            return Err(in_clear(&talk, "the password of ~/.netrc would go", place).into());
        }
        enter(&mut talk, login, place).await?;
    }
    let (system, features) = find_out(&mut talk, one_at_a_time).await?;
    if tls.is_some() {
        // Only listings over a data channel need it; a server that refuses is asked for none.
        talk.ask(b"PBSZ 0").await?;
        talk.ask(b"PROT P").await?;
    }
    let greeting = String::from_utf8_lossy(&greeting.text()).into_owned();
    let about = format!("{} ({})", crate::error::shown(greeting.as_bytes()), system);
    if !talk.input.is_empty() {
        let why = "it replies to what nobody said".into();
        return Err(Error::Nonsense { origin, why }.into());
    }
    Ok(Made {
        wire: talk.wire,
        lines: talk.lines,
        peer,
        tls,
        features,
        about,
    })
}

async fn secure(mut talk: Talk, tls: &Tls) -> Result<Talk> {
    let reply = talk.ask(b"AUTH TLS").await?;
    if reply.code != 234 {
        return Err(Error::Unsupported {
            origin: talk.origin.clone(),
            why: format!("no TLS: {}; ftp:// would go without", reply.shown()).into(),
        });
    }
    // What was sent in the open after the server agreed is not the server's.
    if !talk.input.is_empty() {
        return Err(talk.fault(Fault::Nonsense(
            "it goes on in the open after AUTH TLS".into(),
        )));
    }
    talk.wire = Box::new(tls.wrap(talk.wire).await?);
    Ok(talk)
}

/// GSI: who asks is known by a certificate, and all that follows is sealed. False if there is none, or the server has no GSI.
async fn known_by(
    talk: &mut Talk,
    proxy: &Path,
    settings: &Settings,
    place: &Place,
) -> Result<bool> {
    let Some(mut seal) = Seal::new(proxy, settings.grid.as_deref(), place)? else {
        return Ok(false);
    };
    let reply = talk.ask(b"AUTH GSSAPI").await?;
    if reply.code != 334 {
        if settings.clear_passwords {
            return Ok(false);
        }
        // Anybody in between may have said it in the server's place.
        let what = format!(
            "it refuses GSI ({}), and what follows would go",
            reply.shown()
        );
        return Err(in_clear(talk, &what, place));
    }
    let mut answer = Vec::new();
    // Few are needed.
    for _ in 0..20 {
        let token = seal.step(&answer).map_err(|why| Error::Denied {
            origin: talk.origin.clone(),
            why: format!("GSI: {why}").into(),
        })?;
        let reply = talk.ask(&gsi::adat(&token)).await?;
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
                let why = "GSI: it ends before either side is known".into();
                return Err(talk.fault(Fault::Nonsense(why)));
            }
            talk.lines.seal = Some(Box::new(seal));
            return Ok(true);
        }
    }
    Err(talk.fault(Fault::Nonsense("GSI does not come to an end".into())))
}

/// Whether others are not to know how an account is opened.
fn is_secret(login: &Login) -> bool {
    let open = ["anonymous", "ftp"].contains(&&*login.user);
    !open && !login.password.is_empty()
}

/// Something does not go in clear text.
fn in_clear(talk: &Talk, what: &str, place: &Place) -> Error {
    let safe = match place.scheme {
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

async fn enter(talk: &mut Talk, login: &Login, place: &Place) -> Result<()> {
    let proxy = match place.scheme {
        Scheme::GridFtp => "; or make a proxy certificate (grid-proxy-init)",
        _ => "",
    };
    let help = format!(
        "(as `{}`); name another user in the URL, and its password in ~/.netrc: machine {} login USER password …{proxy}",
        login.user,
        if place.port == place.scheme.port() {
            place.host.to_string()
        } else {
            place.authority()
        }
    );
    let wrong = |text: &str| text.chars().any(char::is_control);
    if wrong(&login.user) || wrong(&login.password) {
        return Err(Error::Named {
            what: place.to_string().into(),
            why: "the user or the password has control characters".into(),
        });
    }
    let mut reply = talk.ask(format!("USER {}", login.user).as_bytes()).await?;
    if reply.code == 331 {
        reply = talk
            .ask(format!("PASS {}", login.password).as_bytes())
            .await?;
    }
    if reply.code == 332 {
        return Err(talk.refused(
            &reply,
            "it wants an account besides, which Esker cannot give",
        ));
    }
    if !reply.is_well() {
        return Err(talk.refused(&reply, &help));
    }
    Ok(())
}

/// Asks for what the server is and can do, all at once: whether it takes that is learned as well.
async fn find_out(talk: &mut Talk, one_at_a_time: bool) -> Result<(String, Vec<String>), Failed> {
    const QUESTIONS: [&[u8]; 5] = [b"SYST", b"TYPE I", b"OPTS UTF8 ON", b"PWD", b"FEAT"];
    let mut replies = Vec::new();
    if one_at_a_time {
        for question in QUESTIONS {
            replies.push(talk.ask(question).await?);
        }
    } else {
        let began = Instant::now();
        talk.say_all(&QUESTIONS).await?;
        replies.push(talk.reply().await?);
        let within = (AHEAD + began.elapsed() * 2).min(talk.silence);
        while replies.len() < QUESTIONS.len() {
            let reply = talk.reply_within(within).await;
            replies.push(reply.map_err(Failed::Ahead)?);
        }
        let codes = replies.iter().map(|r| r.code);
        if codes.clone().all(|code| code >= 500) || !matches!(replies[4].code, 211 | 500..=599) {
            // A server of which these make no sense may have lost its place in what was sent.
            return Err(Failed::Ahead(Error::Nonsense {
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
    // All facts that it has, and only those that are of use.
    let mlst = features
        .iter()
        .find(|f| f.to_ascii_lowercase().starts_with("mlst "));
    if let Some(mlst) = mlst {
        let wanted = wanted_facts(mlst);
        if !wanted.is_empty() {
            talk.ask(format!("OPTS MLST {wanted}").as_bytes()).await?;
        }
    }
    Ok((crate::error::shown(system.as_bytes()).into(), features))
}

/// Facts that are of use.
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

/// Those that servers have but do not send are asked for; the empty text if there are none.
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
