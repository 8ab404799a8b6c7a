//! From an origin's name to its protocol.

use crate::credentials::{self, Login};
use crate::dav::Dav;
use crate::error::Result;
use crate::esker::Esker;
use crate::ftp::{self, Ftp};
use crate::irods::Irods;
use crate::local::Local;
use crate::place::{Place, Scheme};
use crate::pool::{Pool, Settings};
use crate::s3::{Config, S3};
use crate::session::Connect;
use crate::sftp::Sftp;
use std::sync::Arc;

/// Connections to an origin, spoken to as its scheme says. The first question makes one.
pub fn open(place: &Place, settings: Settings) -> Result<Pool> {
    // A connection that hangs is found out while there is time to ask again on another one.
    let silence = settings.patience * 2 / 3;
    let connect: Arc<dyn Connect> = match place.scheme {
        Scheme::Ftp | Scheme::Ftps | Scheme::GridFtp => {
            let own = ftp::Settings {
                in_flight: settings.in_flight,
                silence,
                default_login: settings.default_login,
                clear_passwords: settings.clear_passwords,
                ..ftp::Settings::default()
            };
            Arc::new(Ftp::new(place.clone(), own)?)
        }
        Scheme::Sftp => Arc::new(Sftp::new(place.clone())?.with_silence(silence)),
        Scheme::Dav | Scheme::Davs => {
            let login = login(place, settings.default_login)?;
            let login = login.as_ref().map(|l| (&*l.user, &*l.password));
            Arc::new(Dav::new(place.clone(), login, silence)?)
        }
        Scheme::S3 => {
            let config = Config::find(place.user.as_deref());
            Arc::new(S3::new(place.clone(), config, silence)?)
        }
        Scheme::File => Arc::new(Local::new(place.clone())),
        Scheme::Irods => Arc::new(Irods::find(place.clone(), silence)?),
        Scheme::Esker | Scheme::EskerTls => Arc::new(Esker::new(place.clone(), silence)?),
    };
    Ok(Pool::new(connect, settings))
}

/// Who asks, as `~/.netrc` says.
fn login(place: &Place, default_login: bool) -> Result<Option<Login>> {
    match credentials::netrc() {
        Some(file) => credentials::find(place, &file, default_login),
        None => Ok(None),
    }
}
