//! The namespace of another Esker, server or cluster, as an origin.
//!
//! Attributes come with a listing's names, so that one question answers for all below a directory. Of a cluster any server
//! can be asked, each answers for all. What is asked is asked as whoever owns the database: a tier shows all that it sees.
//!
//! A server tells of changes of what it was asked about, on the connection by which it was asked ([`watch`]). One of a cluster does
//! not yet, and none does of paths that lead through symbolic links: those answers are believed for the tier's time-to-live.

mod watch;

use crate::children::Children;
use crate::error::{Error, Result, shown};
use crate::place::{Place, Scheme};
use crate::question::{Found, Question, Told};
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
use watch::{Ear, Ears};

/// Questions that may be open at once.
const WIDTH: usize = 256;
/// Extended attributes of a file that are told: their names and values together.
const XATTR_BYTES_MAX: usize = 4 << 10;
/// Where systems keep the certificates that they trust.
const TRUSTED: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Another Esker.
#[derive(Debug)]
pub struct Esker {
    place: Place,
    address: Address,
    ears: Arc<Ears>,
}

impl Esker {
    /// Nothing is asked before the first connection. A server that says nothing for that long is taken as gone.
    pub fn new(place: Place, silence: Duration) -> Result<Self> {
        let named = |why: String| Error::Named {
            what: place.to_string().into(),
            why: why.into(),
        };
        if place.user.is_some() {
            let why = "an Esker server knows no log-in: esker://HOST:PORT/PATH, without a user";
            return Err(named(why.into()));
        }
        let text = format!("esker://{}", place.authority());
        let mut address = Address::parse(&text).map_err(|e| named(e.to_string()))?;
        address.patience = silence;
        address.cache = false;
        if place.scheme == Scheme::EskerTls {
            let file = trusted(std::env::var_os("SSL_CERT_FILE").map(PathBuf::from));
            address.tls = Some(file.ok_or_else(|| {
                named("no certificates to trust are found: name a file of them (PEM) with SSL_CERT_FILE".into())
            })?);
        }
        Ok(Self {
            place,
            address,
            ears: Arc::default(),
        })
    }
}

/// The certificates that are named, or those of the machine.
fn trusted(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| {
        let known = TRUSTED.iter().map(Path::new);
        known.filter(|p| p.exists()).map(Path::to_path_buf).next()
    })
}

impl Connect for Esker {
    fn place(&self) -> &Place {
        &self.place
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(async move {
            let link = FileLink::open(&self.address).await;
            let link = link.map_err(|e| {
                let origin = self.place.to_string().into();
                let why = shown(e.to_string().as_bytes());
                match e {
                    // A server that wants TLS may say so, or just hang up.
                    esker_model::Error::Unavailable(_)
                        if self.address.tls.is_none() && why.contains("before any greeting") =>
                    {
                        let why = format!("{why} (for an origin over TLS: esker+tls://)").into();
                        Error::Unreachable { origin, why }
                    }
                    esker_model::Error::Unavailable(_) => Error::Unreachable { origin, why },
                    // It may be spoken to in another way only.
                    _ if self.address.tls.is_none() => {
                        let why = format!("{why} (for an origin over TLS: esker+tls://)").into();
                        Error::Unsupported { origin, why }
                    }
                    _ => Error::Unsupported { origin, why },
                }
            })?;
            let origin = self.place.to_string().into();
            let names = Arc::default();
            Ok(Arc::new(Linked {
                ear: self.ears.listen(&link).await,
                ears: Arc::clone(&self.ears),
                link,
                origin,
                names,
            }) as Arc<dyn Session>)
        })
    }

    fn changes(&self) -> Option<mpsc::Receiver<Told>> {
        Some(self.ears.open())
    }

    fn tells(&self, path: &[u8]) -> bool {
        self.ears.tells(path)
    }
}

struct Linked {
    link: Arc<FileLink>,
    ears: Arc<Ears>,
    /// If this connection is told of changes.
    ear: Option<Ear>,
    origin: Box<str>,
    /// Names of all listings that are read now.
    names: Arc<AtomicUsize>,
}

impl Session for Linked {
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<Found>> {
        Box::pin(async move {
            let path = match NamePath::parse(&question.path) {
                Ok(path) => path,
                Err(e) => return self.refused(e.into()),
            };
            let answer = match question.wants {
                Wants::Stat => self.stat(&path).await,
                Wants::List => self.list(&path).await,
            };
            // Failures are not kept.
            let told = matches!(&answer, Ok((_, told)) if *told);
            self.ears.note(&question.path, told);
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
        format!("Esker {}", shown(self.link.release().as_bytes()))
    }
}

impl Linked {
    fn watcher(&self) -> u64 {
        self.ear.as_ref().map_or(0, Ear::number)
    }

    /// The outer error is the server's. With the answer: whether its changes are told.
    async fn stat(&self, path: &NamePath) -> esker_model::Result<(Result<Found>, bool)> {
        let (inode, told) = self.link.stat(None, path, self.watcher()).await?;
        let found = inode.map_or(Found::Absent, |inode| Found::Present(attributes(&inode)));
        Ok((Ok(found), told))
    }

    /// The same.
    async fn list(&self, path: &NamePath) -> esker_model::Result<(Result<Found>, bool)> {
        let watcher = self.watcher();
        let mut children = Children::among(&self.names);
        let mut fits = true;
        let (own, told) = {
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
            // What leads to a directory would be listed as that one, in vain.
            match select(pin!(own), pin!(entries)).await {
                Either::Left((own, entries)) => {
                    let (own, told) = own?;
                    let Some(own) = own else {
                        return Ok((Ok(Found::Absent), told));
                    };
                    if !own.is_directory() {
                        return Ok((Ok(Found::Present(attributes(&own))), told));
                    }
                    (own, told & entries.await?)
                }
                Either::Right((listed, own)) => {
                    let (own, told) = own.await?;
                    let Some(own) = own else {
                        return Ok((Ok(Found::Absent), told));
                    };
                    if !own.is_directory() {
                        return Ok((Ok(Found::Present(attributes(&own))), told));
                    }
                    (own, told & listed?)
                }
            }
        };
        if !fits {
            let origin = self.origin.clone();
            let why = "a directory with too many names".into();
            return Ok((Err(Error::Nonsense { origin, why }), false));
        }
        Ok((Ok(children.finish(attributes(&own))), told))
    }

    /// What a server's error means for whoever asked.
    fn refused(&self, error: esker_model::Error) -> Result<Found> {
        use esker_model::Error as E;
        let origin = self.origin.clone();
        let why = shown(error.to_string().as_bytes());
        Err(match error {
            // There can be no file of such a name.
            E::File(e)
                if matches!(
                    e.errno,
                    Errno::NotFound | Errno::NotDirectory | Errno::NameTooLong
                ) =>
            {
                return Ok(Found::Absent);
            }
            E::File(_) => Error::Denied { origin, why },
            E::Unavailable(_) | E::Interrupted if self.link.usable() => Error::Busy { origin, why },
            E::Unavailable(_) | E::Interrupted => Error::Broken { origin, why },
            _ => Error::Nonsense { origin, why },
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
        // Their names have a dot in them, so that none is taken for one of those above.
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

    fn place(url: &str) -> Place {
        Place::parse(url).unwrap().0
    }

    #[test]
    fn places_are_addresses() {
        let second = Duration::from_secs(1);
        let esker = Esker::new(place("esker://[::1]:7401/x"), second).unwrap();
        assert_eq!(esker.address.authority(), "[::1]:7401");
        assert_eq!(esker.address.tls, None);
        let error = Esker::new(place("esker://ann@lab/x"), second).unwrap_err();
        assert!(error.to_string().contains("knows no log-in"), "{error}");
        let named = trusted(Some("mine.pem".into()));
        assert_eq!(named, Some("mine.pem".into()));
    }

    #[tokio::test]
    async fn nobody_there_is_said_with_what_helps() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        drop(taken);
        let place = place(&format!("esker://127.0.0.1:{port}/"));
        let esker = Esker::new(place, Duration::from_secs(2)).unwrap();
        let pool = Pool::new(Arc::new(esker), Settings::default());
        let error = pool.ask(Question::stat(b"/")).await.unwrap_err();
        assert!(error.to_string().contains("nobody listens"), "{error}");
    }
}
