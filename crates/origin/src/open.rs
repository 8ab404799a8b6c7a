//! From a place to a pool of connections, with the credentials that people keep where each protocol's own tools have them.

use crate::dav::Dav;
use crate::error::{Error, Result};
use crate::irods::{Irods, Login};
use crate::local::Local;
use crate::place::{Place, Scheme};
use crate::pool::{Pool, Settings};
use crate::s3::{Config, S3};
use crate::session::Connect;
use crate::sftp::Sftp;
use std::sync::Arc;

/// A pool for a place; nothing is sent before the first question.
pub fn open(place: &Place, settings: Settings) -> Result<Pool> {
    // A connection that says nothing is given up while there is time left to ask again on another one.
    let silence = settings.patience * 2 / 3;
    let there = place.clone();
    let connect: Arc<dyn Connect> = match place.scheme {
        Scheme::Sftp => Arc::new(Sftp::new(there)?.with_silence(silence)),
        Scheme::File => Arc::new(Local::new(there)),
        Scheme::Dav | Scheme::Davs => Arc::new(Dav::new(there, None, silence)?),
        Scheme::S3 => {
            let config = Config::find(place.user.as_deref());
            Arc::new(S3::new(there, config, silence)?)
        }
        Scheme::Irods => {
            let login = Login::find(place)?;
            Arc::new(Irods::new(there, login, silence))
        }
        Scheme::Ftp | Scheme::Ftps | Scheme::GridFtp | Scheme::Esker => {
            return Err(Error::Unsupported {
                origin: place.to_string().into(),
                why: format!(
                    "{}:// is not among the protocols of this build",
                    place.scheme.name()
                )
                .into(),
            });
        }
    };
    Ok(Pool::new(connect, settings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::{Found, Question};

    #[tokio::test]
    async fn a_url_is_all_that_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}", dir.path().display());
        let (place, path) = Place::parse(&url).unwrap();
        let pool = open(&place, Settings::default()).unwrap();
        let found = pool.ask(Question::list(&path)).await.unwrap();
        assert!(matches!(found, Found::Listing { children, .. } if children.is_empty()));
        for url in ["sftp://h/", "dav://h/", "davs://h/", "s3://bucket/"] {
            let place = Place::parse(url).unwrap().0;
            assert_eq!(open(&place, Settings::default()).unwrap().place(), &place);
        }
    }
}
