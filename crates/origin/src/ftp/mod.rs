//! FTP, FTP over TLS and `GridFTP`: a control channel with many commands in flight.
//!
//! What a server can do is found out by asking it: `FEAT` says something, and what it says is believed until a command is answered
//! with "not understood"; then the next way is taken. Attributes come by `MLST`; else by `STAT` of the path, which
//! prints what `ls -l` does; else by `SIZE`, `MDTM` and `CWD`. Listings come on the control channel by `MLSC` (`GridFTP`) or `STAT`,
//! many at once; else by `MLSD` or `LIST` over a data channel, one at a time. A refusal is read for what it means (`words`),
//! and where its words do not tell, the directory above is looked at: nothing is called absent because it could not be seen.
//!
//! Suggested reading order: `reply`, `facts`, `unix`, `words`, `listing`, `login`, `can`, `session`, `doubt`, `together`, `data`.

mod can;
mod data;
mod doubt;
pub mod facts;
mod gsi;
mod listing;
mod login;
pub mod reply;
mod session;
mod time;
mod tls;
mod together;
pub mod unix;
pub mod words;

use crate::credentials::{self, Login};
use crate::error::{Error, Result};
use crate::place::{Place, Scheme};
use crate::session::{Connect, Session};
use crate::stream::Limits;
use can::Can;
use futures_util::future::BoxFuture;
use session::Control;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How connections are made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Commands in flight on one connection at most.
    pub in_flight: usize,
    /// How long nothing may come while something is awaited.
    pub silence: Duration,
    /// Who asks; none: who the netrc file says, else anonymous.
    pub login: Option<Login>,
    /// Where passwords are looked up.
    pub netrc: Option<PathBuf>,
    /// Whether an account that is there for any host (`default`) is shown to this one.
    pub default_login: bool,
    /// Whether a password may go in clear text: over `ftp://`, and over `gridftp://` where the server has no GSI.
    pub clear_passwords: bool,
    /// Where a server tells size and time of a file at once, but all else of it only by reading through its directory: asks for all
    /// else as well. Otherwise links to files pass for files there, and there are no permissions, but times have seconds.
    pub exact: bool,
    /// The proxy certificate, or the certificate with its key, by which `GridFTP` servers know who asks; none: no GSI.
    pub proxy: Option<PathBuf>,
    /// The folder of certificates that `GridFTP` servers must be signed by.
    pub grid: Option<PathBuf>,
    /// Certificates that servers of `ftps` must be signed by; none: those that this machine trusts.
    pub trusted: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            in_flight: limits.in_flight,
            silence: limits.silence,
            login: None,
            netrc: credentials::netrc(),
            default_login: false,
            clear_passwords: false,
            exact: false,
            proxy: gsi::proxy(),
            grid: Some(gsi::trusted()),
            trusted: None,
        }
    }
}

/// What connections to one server have found out about it, for those that come after.
#[derive(Debug, Clone, Default)]
struct Known {
    /// It loses or refuses commands that are sent before the reply to the one before.
    one_at_a_time: bool,
    /// Directories that `STAT` takes too long for. `ProFTPD` takes the square of their names.
    slow: HashSet<Box<[u8]>>,
    /// What a server that says this of itself can do.
    can: Option<(Vec<String>, Can)>,
}

/// Connects to an FTP or `GridFTP` server.
pub struct Ftp {
    place: Place,
    settings: Settings,
    known: Arc<Mutex<Known>>,
}

impl Ftp {
    /// Connects to nothing yet.
    pub fn new(place: Place, settings: Settings) -> Result<Self> {
        if !matches!(place.scheme, Scheme::Ftp | Scheme::Ftps | Scheme::GridFtp) {
            return Err(Error::Named {
                what: place.to_string().into(),
                why: "not FTP".into(),
            });
        }
        let known = Arc::default();
        Ok(Self {
            place,
            settings,
            known,
        })
    }

    fn login(&self) -> Result<Login> {
        if let Some(login) = &self.settings.login {
            return Ok(login.clone());
        }
        if let Some(file) = &self.settings.netrc
            && let Some(login) = credentials::find(&self.place, file, self.settings.default_login)?
        {
            return Ok(login);
        }
        let user = self.place.user.clone();
        let password = if user.is_some() { "" } else { "esker@" };
        Ok(Login {
            user: user.unwrap_or_else(|| "anonymous".into()),
            password: password.into(),
        })
    }

    async fn open(&self) -> Result<Arc<dyn Session>> {
        let login = self.login()?;
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().clone();
        let made = login::connect(&self.place, &self.settings, &login, known.one_at_a_time).await;
        let (made, one_at_a_time) = match made {
            // It may be that it cannot take commands ahead of its replies: once more, without.
            Err(login::Failed::Ahead(_)) if !known.one_at_a_time => {
                let made = login::connect(&self.place, &self.settings, &login, true).await;
                (made, true)
            }
            made => (made, known.one_at_a_time),
        };
        let made = made.map_err(login::Failed::error)?;
        lock().one_at_a_time = one_at_a_time;
        let width = (!one_at_a_time).then_some(self.settings.in_flight.max(1));
        let known = self.known.clone();
        Ok(Arc::new(Control::new(
            &self.place,
            &self.settings,
            made,
            width,
            known,
        )))
    }
}

impl Connect for Ftp {
    fn place(&self) -> &Place {
        &self.place
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(self.open())
    }
}
