//! The namespace of another Esker server or cluster as an origin.
//!
//! A listing returns names with attributes, so one request answers for a whole directory. Any server of a cluster can be asked;
//! each answers for all. Requests are made as the owner of the database: a tier serves everything that its own principal sees.
//!
//! A server sends notifications of changes on the connection of the request ([`watch`]). A cluster's servers do not yet, and no
//! server does for paths through symbolic links: those responses are valid for the tier's time-to-live.

mod watch;

use crate::children::Children;
use crate::error::{Error, Result, printable};
use crate::origin_url::{OriginUrl, Scheme};
use crate::request::{MetadataRequest, Notification, PathMetadata};
use crate::session::{Connect, Session};
use crate::unix;
use esker_model::namespace::{Content, Errno, Inode, NamePath};
use esker_rpc::{Address, FileLink};
use esker_site_cache::entry::{Attributes, Wants};
use futures_util::future::{BoxFuture, Either, select};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::sync::mpsc;
use watch::{Subscription, Subscriptions};

/// Maximum number of requests in flight.
const WIDTH: usize = 256;
/// Total bytes of names and values of extended attributes in one response.
const XATTR_BYTES_MAX: usize = 4 << 10;
/// Files with the system's trusted certificates.
const TRUSTED: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Another Esker server or cluster as an origin.
#[derive(Debug)]
pub struct Esker {
    origin_url: OriginUrl,
    address: Address,
    subscriptions: Arc<Subscriptions>,
}

impl Esker {
    /// Creates the origin; the first request connects. A server that sends nothing for `silence` has failed.
    pub fn new(origin_url: OriginUrl, silence: Duration) -> Result<Self> {
        let named = |why: String| Error::InvalidName {
            what: origin_url.to_string().into(),
            why: why.into(),
        };
        if origin_url.user.is_some() {
            let why = "an Esker server has no logins: esker://HOST:PORT/PATH, without a user";
            return Err(named(why.into()));
        }
        let text = format!("esker://{}", origin_url.authority());
        let mut address = Address::parse(&text).map_err(|e| named(e.to_string()))?;
        address.patience = silence;
        address.cache = false;
        if origin_url.scheme == Scheme::EskerTls {
            let file = trusted(std::env::var_os("SSL_CERT_FILE").map(PathBuf::from));
            address.tls = Some(file.ok_or_else(|| {
                named("no certificates to trust are found: name a file of them (PEM) with SSL_CERT_FILE".into())
            })?);
        }
        Ok(Self {
            origin_url,
            address,
            subscriptions: Arc::default(),
        })
    }
}

/// Returns the named certificates file, or the first of the system's files that exists.
fn trusted(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| {
        let known = TRUSTED.iter().map(Path::new);
        known.filter(|p| p.exists()).map(Path::to_path_buf).next()
    })
}

impl Connect for Esker {
    fn origin_url(&self) -> &OriginUrl {
        &self.origin_url
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(async move {
            let link = FileLink::open(&self.address).await;
            let link = link.map_err(|e| {
                let origin = self.origin_url.to_string().into();
                let why = printable(e.to_string().as_bytes());
                match e.kind() {
                    // A server that requires TLS may say so, or just close the connection.
                    esker_model::ErrorKind::Unavailable
                        if self.address.tls.is_none() && why.contains("before any greeting") =>
                    {
                        let why = format!("{why} (for an origin over TLS: esker+tls://)").into();
                        Error::Unreachable { origin, why }
                    }
                    esker_model::ErrorKind::Unavailable => Error::Unreachable { origin, why },
                    // The server may accept TLS only.
                    _ if self.address.tls.is_none() => {
                        let why = format!("{why} (for an origin over TLS: esker+tls://)").into();
                        Error::Unsupported { origin, why }
                    }
                    _ => Error::Unsupported { origin, why },
                }
            })?;
            let origin = self.origin_url.to_string().into();
            let names = Arc::default();
            Ok(Arc::new(EskerSession {
                subscription: self.subscriptions.listen(&link).await,
                subscriptions: Arc::clone(&self.subscriptions),
                link,
                origin,
                names,
            }) as Arc<dyn Session>)
        })
    }

    fn changes(&self) -> Option<mpsc::Receiver<Notification>> {
        Some(self.subscriptions.open())
    }

    fn notifies(&self, path: &[u8]) -> bool {
        self.subscriptions.notifies(path)
    }
}

struct EskerSession {
    link: Arc<FileLink>,
    subscriptions: Arc<Subscriptions>,
    /// The subscription of this connection, if the server sends notifications.
    subscription: Option<Subscription>,
    origin: Box<str>,
    /// Number of names in all listings that are being read.
    names: Arc<AtomicUsize>,
}

impl Session for EskerSession {
    fn request(&self, request: MetadataRequest) -> BoxFuture<'_, Result<PathMetadata>> {
        Box::pin(async move {
            let path = match NamePath::parse(&request.path) {
                Ok(path) => path,
                Err(e) => return self.refused(e.into()),
            };
            let answer = match request.wants {
                Wants::Stat => self.stat(&path).await,
                Wants::List => self.list(&path).await,
            };
            // Failures are not cached.
            let watched = matches!(&answer, Ok((_, watched)) if *watched);
            self.subscriptions.note(&request.path, watched);
            match answer {
                Ok((found, _)) => found,
                Err(e) => self.refused(e),
            }
        })
    }

    fn width(&self) -> usize {
        WIDTH
    }

    fn is_broken(&self) -> bool {
        !self.link.usable()
    }

    fn about(&self) -> String {
        format!("Esker {}", printable(self.link.release().as_bytes()))
    }
}

impl EskerSession {
    fn watcher(&self) -> u64 {
        self.subscription.as_ref().map_or(0, Subscription::number)
    }

    /// Returns the attributes of a path and whether the server will notify changes. The outer error is the server's.
    async fn stat(&self, path: &NamePath) -> esker_model::Result<(Result<PathMetadata>, bool)> {
        let (inode, watched) = self.link.stat(None, path, self.watcher()).await?;
        let found = inode.map_or(PathMetadata::Absent, |inode| {
            PathMetadata::Present(attributes(&inode))
        });
        Ok((Ok(found), watched))
    }

    /// Lists a directory; the flag and the outer error are as in `stat`.
    async fn list(&self, path: &NamePath) -> esker_model::Result<(Result<PathMetadata>, bool)> {
        let watcher = self.watcher();
        let mut children = Children::among(&self.names);
        let mut fits = true;
        let (own, watched) = {
            let entries = self.link.list(None, path, watcher, |entry| {
                let name = entry.name.as_bytes().into();
                fits = children.push(name, attributes(&entry.inode)).is_ok();
                if fits {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            let own = self.link.stat(None, path, watcher);
            // A link would be listed as its target directory, which is not wanted.
            match select(pin!(own), pin!(entries)).await {
                Either::Left((own, entries)) => {
                    let (own, watched) = own?;
                    let Some(own) = own else {
                        return Ok((Ok(PathMetadata::Absent), watched));
                    };
                    if !own.is_directory() {
                        return Ok((Ok(PathMetadata::Present(attributes(&own))), watched));
                    }
                    (own, watched & entries.await?)
                }
                Either::Right((listed, own)) => {
                    let (own, watched) = own.await?;
                    let Some(own) = own else {
                        return Ok((Ok(PathMetadata::Absent), watched));
                    };
                    if !own.is_directory() {
                        return Ok((Ok(PathMetadata::Present(attributes(&own))), watched));
                    }
                    (own, watched & listed?)
                }
            }
        };
        if !fits {
            let origin = self.origin.clone();
            let why = "a directory with too many names".into();
            return Ok((Err(Error::Protocol { origin, why }), false));
        }
        Ok((Ok(children.finish(attributes(&own))), watched))
    }

    /// Converts a server's error to a response or an error of this crate.
    fn refused(&self, error: esker_model::Error) -> Result<PathMetadata> {
        use esker_model::Error as E;
        let origin = self.origin.clone();
        let why = printable(error.to_string().as_bytes());
        Err(match error {
            // No file can have such a name.
            E::File(e)
                if matches!(
                    e.errno,
                    Errno::NotFound | Errno::NotDirectory | Errno::NameTooLong
                ) =>
            {
                return Ok(PathMetadata::Absent);
            }
            E::File(_) => Error::Denied { origin, why },
            E::Unavailable(_) | E::Interrupted if self.link.usable() => Error::Busy { origin, why },
            E::Unavailable(_) | E::Interrupted => Error::Broken { origin, why },
            _ => Error::Protocol { origin, why },
        })
    }
}

fn attributes(inode: &Inode) -> Attributes {
    let mut more: Vec<(Box<str>, Box<str>)> = vec![
        ("uid".into(), inode.uid.to_string().into()),
        ("gid".into(), inode.gid.to_string().into()),
        ("links".into(), inode.links.to_string().into()),
        ("vertex".into(), inode.id.to_string().into()),
    ];
    if let Content::Symlink(target) = &inode.content
        && let Ok(target) = std::str::from_utf8(target)
    {
        more.push(("target".into(), target.into()));
    }
    let mut bytes = 0;
    for (name, value) in &inode.xattrs {
        // Names of extended attributes contain a dot, so none collides with the names above.
        let texts = (std::str::from_utf8(name), std::str::from_utf8(value));
        bytes += name.len() + value.len();
        if let (Ok(name), Ok(value)) = texts
            && bytes <= XATTR_BYTES_MAX
        {
            more.push((name.into(), value.into()));
        }
    }
    Attributes {
        kind: unix::kind(inode.mode),
        size: Some(inode.size),
        modified: Some(inode.mtime),
        mode: Some(inode.mode & 0o7777),
        more: Some(more.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Pool, Settings};

    fn origin_url(url: &str) -> OriginUrl {
        OriginUrl::parse(url).unwrap().0
    }

    #[test]
    fn places_are_addresses() {
        let second = Duration::from_secs(1);
        let esker = Esker::new(origin_url("esker://[::1]:7401/x"), second).unwrap();
        assert_eq!(esker.address.authority(), "[::1]:7401");
        assert_eq!(esker.address.tls, None);
        let error = Esker::new(origin_url("esker://ann@lab/x"), second).unwrap_err();
        assert!(error.to_string().contains("has no logins"), "{error}");
        let named = trusted(Some("mine.pem".into()));
        assert_eq!(named, Some("mine.pem".into()));
    }

    #[tokio::test]
    async fn nobody_there_is_said_with_what_helps() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        drop(taken);
        let origin_url = origin_url(&format!("esker://127.0.0.1:{port}/"));
        let esker = Esker::new(origin_url, Duration::from_secs(2)).unwrap();
        let pool = Pool::new(Arc::new(esker), Settings::default());
        let error = pool.request(MetadataRequest::stat(b"/")).await.unwrap_err();
        assert!(error.to_string().contains("nothing listens"), "{error}");
    }
}
