//! FTP, FTP over TLS and `GridFTP`: a control channel with many commands in flight.
//!
//! The capabilities of a server are found by trial: `FEAT` is believed until a command is refused as not understood; then the
//! next way is taken. Attributes come from `MLST`; else from `STAT` of the path, which prints `ls -l` lines; else from `SIZE`,
//! `MDTM` and `CWD`. Listings come on the control channel from `MLSC` (`GridFTP`) or `STAT`, many at once; else from `MLSD` or
//! `LIST` over a data channel, one at a time. The text of a refusal is classified (`refusal`); if it is not clear, the parent
//! directory is listed: no path is reported as absent because it could not be seen.
//!
//! Suggested reading order: `reply`, `facts`, `unix`, `refusal`, `listing`, `login`, `capabilities`, `session`,
//! `fallback`, `shared_listing`, `data`.

mod capabilities;
mod data;
pub mod facts;
mod fallback;
mod gsi;
mod listing;
mod login;
pub mod refusal;
pub mod reply;
mod session;
mod shared_listing;
mod time;
mod tls;
pub mod unix;

use crate::credentials::{self, Login};
use crate::error::{Error, Result};
use crate::origin_url::{OriginUrl, Scheme};
use crate::session::{Connect, Session};
use crate::stream::Limits;
use capabilities::Capabilities;
use futures_util::future::BoxFuture;
use session::ControlChannel;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Settings for connections to FTP servers.
#[derive(Debug, Clone)]
pub struct FtpSettings {
    /// Maximum number of commands in flight on one connection.
    pub in_flight: usize,
    /// The time after which an awaited server that sends nothing has failed.
    pub silence: Duration,
    /// The account; `None` for the account in the netrc file, else `anonymous`.
    pub login: Option<Login>,
    /// Path of the netrc file with passwords.
    pub netrc: Option<PathBuf>,
    /// Whether the `default` entry of the netrc file is used for this server.
    pub default_login: bool,
    /// Whether a password may be sent in clear text: over `ftp://`, and over `gridftp://` if the server has no GSI.
    pub clear_passwords: bool,
    /// Whether to request all attributes where the server returns size and time cheaply but other attributes only by reading the
    /// directory. If false, links to files are reported as files without permissions, but times have seconds.
    pub exact: bool,
    /// File with the proxy certificate, or certificate and key, for `GridFTP` servers; `None`: no GSI.
    pub proxy: Option<PathBuf>,
    /// Folder of the certificates trusted for `GridFTP` servers.
    pub grid: Option<PathBuf>,
    /// File of the certificates trusted for `ftps` servers; `None` for those of the system.
    pub trusted: Option<PathBuf>,
}

impl Default for FtpSettings {
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

/// Observations of one server's behaviour, shared by all its connections.
#[derive(Debug, Clone, Default)]
struct LearnedBehaviour {
    /// Whether the server loses or refuses pipelined commands.
    one_at_a_time: bool,
    /// Directories for which `STAT` is too slow; `ProFTPD` takes time quadratic in their names.
    slow: HashSet<Box<[u8]>>,
    /// Capabilities observed with the FEAT lines they belong to.
    capabilities: Option<(Vec<String>, Capabilities)>,
}

/// An FTP or `GridFTP` server as an origin.
pub struct Ftp {
    origin_url: OriginUrl,
    settings: FtpSettings,
    learned: Arc<Mutex<LearnedBehaviour>>,
}

impl Ftp {
    /// Creates the origin; nothing is connected yet.
    pub fn new(origin_url: OriginUrl, settings: FtpSettings) -> Result<Self> {
        if !matches!(
            origin_url.scheme,
            Scheme::Ftp | Scheme::Ftps | Scheme::GridFtp
        ) {
            return Err(Error::InvalidName {
                what: origin_url.to_string().into(),
                why: "not FTP".into(),
            });
        }
        let learned = Arc::default();
        Ok(Self {
            origin_url,
            settings,
            learned,
        })
    }

    fn login(&self) -> Result<Login> {
        if let Some(login) = &self.settings.login {
            return Ok(login.clone());
        }
        if let Some(file) = &self.settings.netrc
            && let Some(login) =
                credentials::find(&self.origin_url, file, self.settings.default_login)?
        {
            return Ok(login);
        }
        let user = self.origin_url.user.clone();
        let password = if user.is_some() { "" } else { "esker@" };
        Ok(Login {
            user: user.unwrap_or_else(|| "anonymous".into()),
            password: password.into(),
        })
    }

    async fn open(&self) -> Result<Arc<dyn Session>> {
        let login = self.login()?;
        let lock = || self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let learned = lock().clone();
        let made = login::connect(
            &self.origin_url,
            &self.settings,
            &login,
            learned.one_at_a_time,
        )
        .await;
        let (made, one_at_a_time) = match made {
            // The server may not support pipelined commands: retry once without.
            Err(login::LoginError::Pipelining(_)) if !learned.one_at_a_time => {
                let made = login::connect(&self.origin_url, &self.settings, &login, true).await;
                (made, true)
            }
            made => (made, learned.one_at_a_time),
        };
        let made = made.map_err(login::LoginError::error)?;
        lock().one_at_a_time = one_at_a_time;
        let width = (!one_at_a_time).then_some(self.settings.in_flight.max(1));
        let learned = self.learned.clone();
        Ok(Arc::new(ControlChannel::new(
            &self.origin_url,
            &self.settings,
            made,
            width,
            learned,
        )))
    }
}

impl Connect for Ftp {
    fn origin_url(&self) -> &OriginUrl {
        &self.origin_url
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(self.open())
    }
}
