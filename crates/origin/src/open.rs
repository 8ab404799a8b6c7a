//! Selection of a protocol by the origin's scheme.

use crate::credentials::{self, Login};
use crate::dav::Dav;
use crate::error::Result;
use crate::esker::Esker;
use crate::ftp::{self, Ftp};
use crate::irods::Irods;
use crate::local::Local;
use crate::origin_url::{OriginUrl, Scheme};
use crate::pool::{Pool, Settings};
use crate::s3::{Config, S3};
use crate::session::Connect;
use crate::sftp::Sftp;
use std::sync::Arc;

/// Creates the connection pool of an origin for its protocol. The first request connects.
///
/// # Errors
/// Returns an error if the origin's name or account is invalid.
pub fn open(origin_url: &OriginUrl, settings: Settings) -> Result<Pool> {
    // Shorter than the time limit of a request, so that a hanging connection leaves time for a retry.
    let silence = settings.patience * 2 / 3;
    let connect: Arc<dyn Connect> = match origin_url.scheme {
        Scheme::Ftp | Scheme::Ftps | Scheme::GridFtp => {
            let own = ftp::FtpSettings {
                in_flight: settings.in_flight,
                silence,
                default_login: settings.default_login,
                clear_passwords: settings.clear_passwords,
                ..ftp::FtpSettings::default()
            };
            Arc::new(Ftp::new(origin_url.clone(), own)?)
        }
        Scheme::Sftp => Arc::new(Sftp::new(origin_url.clone())?.with_silence(silence)),
        Scheme::Dav | Scheme::Davs => {
            let login = login(origin_url, settings.default_login)?;
            let login = login.as_ref().map(|l| (&*l.user, &*l.password));
            Arc::new(Dav::new(origin_url.clone(), login, silence)?)
        }
        Scheme::S3 => {
            let config = Config::find(origin_url.user.as_deref());
            Arc::new(S3::new(origin_url.clone(), config, silence)?)
        }
        Scheme::File => Arc::new(Local::new(origin_url.clone())),
        Scheme::Irods => Arc::new(Irods::find(origin_url.clone(), silence)?),
        Scheme::Esker | Scheme::EskerTls => Arc::new(Esker::new(origin_url.clone(), silence)?),
    };
    Ok(Pool::new(connect, settings))
}

/// Returns the account from `~/.netrc`.
fn login(origin_url: &OriginUrl, default_login: bool) -> Result<Option<Login>> {
    match credentials::netrc() {
        Some(file) => credentials::find(origin_url, &file, default_login),
        None => Ok(None),
    }
}
