//! S3 and what speaks like it: a bucket as a file system, keys parted by `/`.
//!
//! There are no directories in a bucket. A path is a file if there is an object of that key, and a directory if there are
//! keys below it; where both are so, it is a directory, for else what is below could not be reached. An object whose key ends
//! in `/` only makes a directory without children. To ask about a path takes two requests, which are sent together; to list it,
//! one for each thousand names. Names that are no UTF-8 are absent: keys are text.
//!
//! `s3://bucket/path`, or `s3://profile@bucket/path`. See [`Config`] for credentials. Questions in flight are requests on as
//! many kept connections, or streams of one where the server offers HTTP/2.

mod config;
mod xml;

use crate::children::Children;
use crate::error::{Error, Result};
use crate::http::{Answer, Http, ONE_MAX};
use crate::place::{Place, escaped};
use crate::question::{Found, Question};
use crate::session::{Connect, Session};
use crate::unix;
pub use config::Config;
use esker_site_cache::entry::{Attributes, Kind, Wants};
use futures_util::future::{BoxFuture, join};
use http::Request;
use http_body_util::Full;
use jiff::Timestamp;
use rusty_s3::Method;
use rusty_s3::signing::sign;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use url::Url;
use xml::{Object, Page};

/// The longest key that there is.
const KEY_MAX: usize = 1024;
/// How long a signature holds: clocks differ, and requests may wait.
const SIGNED_SECONDS: u64 = 900;
const REGION: &str = "us-east-1";
const KEYS: &str =
    "are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or ~/.aws/credentials right?";

/// Connections to a bucket.
pub struct S3 {
    place: Place,
    inner: Arc<Inner>,
}

struct Inner {
    http: Http,
    /// Of the bucket, without `/` at its end.
    base: Url,
    config: Config,
    region: Mutex<Box<str>>,
    about: Mutex<String>,
}

impl S3 {
    /// The bucket is the place's host. `silence` is how long a server may say nothing.
    pub fn new(place: Place, config: Config, silence: Duration) -> Result<Self> {
        let origin: Box<str> = place.to_string().into();
        let bad = |why: &str| Error::Named {
            what: origin.clone(),
            why: why.into(),
        };
        let bucket = &*place.host;
        let sound = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.starts_with('.') || !bucket.chars().all(sound) {
            return Err(bad(
                "this is no name of a bucket; it has letters, digits, dots and hyphens",
            ));
        }
        let region = config.region.clone().unwrap_or_else(|| REGION.into());
        if !region
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-')
        {
            return Err(bad("AWS_REGION is no name of a region"));
        }
        let text = match &config.endpoint {
            Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
            // Certificates hold for one word in front.
            None if bucket.contains('.') => format!("https://s3.{region}.amazonaws.com/{bucket}"),
            None => format!("https://{bucket}.s3.{region}.amazonaws.com"),
        };
        let base = Url::parse(&text).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.has_host() && url.username().is_empty()
        });
        let base = base.ok_or_else(|| {
            bad("AWS_ENDPOINT_URL, or endpoint_url in ~/.aws/config, is not http[s]://HOST[:PORT]")
        })?;
        let inner = Inner {
            http: Http::new(origin, base.scheme() == "https", silence)?,
            base,
            config,
            region: Mutex::new(region),
            about: Mutex::default(),
        };
        Ok(Self {
            place,
            inner: Arc::new(inner),
        })
    }
}

impl Connect for S3 {
    fn place(&self) -> &Place {
        &self.place
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(async {
            let inner = self.inner.clone();
            inner.greet().await?;
            Ok(Arc::new(Bucket { inner }) as Arc<dyn Session>)
        })
    }
}

struct Bucket {
    inner: Arc<Inner>,
}

impl Session for Bucket {
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<Found>> {
        Box::pin(async move {
            let Ok(path) = str::from_utf8(&question.path) else {
                return Ok(Found::Absent);
            };
            let key = path.strip_prefix('/').unwrap_or(path);
            if key.len() > KEY_MAX {
                return Ok(Found::Absent);
            }
            match question.wants {
                Wants::Stat => self.inner.stat(key).await,
                Wants::List => self.inner.list(key).await,
            }
        })
    }

    fn width(&self) -> usize {
        self.inner.http.width()
    }

    /// Connections come and go below this.
    fn is_broken(&self) -> bool {
        false
    }

    fn about(&self) -> String {
        let about = self.inner.about.lock();
        about.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Inner {
    async fn send(&self, method: Method, key: &str, query: &[(&str, &str)]) -> Result<Answer> {
        let mut url = self.base.clone();
        let before = url.path().trim_end_matches('/');
        let path = match key {
            "" => before.to_owned(),
            key => format!("{before}/{}", escaped(key.as_bytes(), b"/")),
        };
        url.set_path(&path);
        let region = self
            .region
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some((id, secret)) = &self.config.keys {
            let token = self.config.token.as_deref();
            url = sign(
                &Timestamp::now(),
                method,
                url,
                id,
                secret,
                token,
                &region,
                SIGNED_SECONDS,
                query.iter().copied(),
                std::iter::empty(),
            );
        } else if !query.is_empty() {
            let plain: Vec<String> = query
                .iter()
                .map(|(k, v)| format!("{k}={}", escaped(v.as_bytes(), b"")))
                .collect();
            url.set_query(Some(&plain.join("&")));
        }
        let name = match method {
            Method::Head => http::Method::HEAD,
            _ => http::Method::GET,
        };
        let request = Request::builder()
            .method(name)
            .uri(url.as_str())
            .header(http::header::USER_AGENT, "esker");
        // The text of this error must not have the URL, which is signed.
        let request = request.body(Full::default()).map_err(|_| Error::Named {
            what: key.into(),
            why: "this cannot be said in a URL".into(),
        })?;
        // A page has a thousand keys at most.
        self.http.send(request, ONE_MAX).await
    }

    /// Finds the bucket's region, if it is another one than the user said.
    async fn greet(&self) -> Result<()> {
        let answer = self.send(Method::Head, "", &[]).await?;
        let sound =
            |r: &&str| r.len() < 64 && r.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if let Some(region) = answer.header("x-amz-bucket-region").filter(sound) {
            *self.region.lock().unwrap_or_else(PoisonError::into_inner) = region.into();
        }
        let server = answer.header("server").unwrap_or("a server without a name");
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) =
            crate::error::shown(server.as_bytes()).into();
        Ok(())
    }

    fn refused(&self, answer: &Answer) -> Error {
        let (code, words) = xml::error(&answer.body);
        let origin = self.http.origin().into();
        let why = format!("{code}: {}", crate::error::shown(words.as_bytes())).into();
        match &*code {
            "SlowDown" | "ServiceUnavailable" | "InternalError" | "RequestTimeout" => {
                return Error::Busy { origin, why };
            }
            "PermanentRedirect" | "TemporaryRedirect" | "AuthorizationHeaderMalformed" => {
                let why = format!("{why} (set AWS_REGION to the bucket's region)").into();
                return Error::Unsupported { origin, why };
            }
            "RequestTimeTooSkewed" => {
                let why = format!("{why} (this machine's clock is wrong)").into();
                return Error::Denied { origin, why };
            }
            _ => {}
        }
        let said = if code.is_empty() {
            String::new()
        } else {
            format!("{code}: {words}")
        };
        let help = match (answer.status.as_u16(), &self.config.keys) {
            (401 | 403, Some(_)) => KEYS,
            (401 | 403, None) => {
                "no keys were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            }
            (301 | 307 | 400, _) => "is AWS_REGION the bucket's?",
            _ => "",
        };
        self.http.refused(answer.status, &said, help)
    }

    /// An object of this very key; an error if that cannot be known.
    async fn head(&self, key: &str) -> Result<Option<Attributes>> {
        let answer = self.send(Method::Head, key, &[]).await?;
        match answer.status.as_u16() {
            200 => {
                let object = Object {
                    key: Vec::new(),
                    size: answer.header("content-length").and_then(|v| v.parse().ok()),
                    modified: answer.header("last-modified").and_then(crate::dav::date),
                    etag: answer.header("etag").map(|v| v.trim_matches('"').into()),
                };
                Ok(Some(file(object)))
            }
            404 => Ok(None),
            _ => Err(self.refused(&answer)),
        }
    }

    /// A page of keys that begin with `prefix`; none if there is no such bucket.
    async fn page(&self, prefix: &str, most: &str, after: Option<&str>) -> Result<Option<Page>> {
        let mut query = vec![
            ("delimiter", "/"),
            ("encoding-type", "url"),
            ("list-type", "2"),
            ("max-keys", most),
            ("prefix", prefix),
        ];
        if let Some(after) = after {
            query.insert(0, ("continuation-token", after));
        }
        let answer = self.send(Method::Get, "", &query).await?;
        match answer.status.as_u16() {
            200 => {
                let page = xml::page(&answer.body);
                Ok(Some(page.map_err(|why| self.http.nonsense(&why))?))
            }
            404 => Ok(None),
            _ => Err(self.refused(&answer)),
        }
    }

    async fn stat(&self, key: &str) -> Result<Found> {
        let prefix = below(key);
        let below = self.page(&prefix, "1", None);
        if key.is_empty() {
            return Ok(match below.await? {
                Some(_) => Found::Present(Attributes::of(Kind::Directory)),
                None => Found::Absent,
            });
        }
        match join(self.head(key), below).await {
            (_, Ok(Some(page))) if !page.is_empty() => {
                Ok(Found::Present(directory(&prefix, &page)))
            }
            (Ok(Some(attributes)), _) => Ok(Found::Present(attributes)),
            (Ok(None), Ok(_)) => Ok(Found::Absent),
            // Who may list but not read is refused each object, but is told of it in a listing.
            (Err(Error::Denied { .. }), Ok(_)) => {
                let page = self.page(key, "1", None).await?.unwrap_or_default();
                let object = page.objects.into_iter().find(|o| o.key == key.as_bytes());
                Ok(object.map_or(Found::Absent, |o| Found::Present(file(o))))
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    async fn list(&self, key: &str) -> Result<Found> {
        let prefix = below(key);
        let Some(mut page) = self.page(&prefix, "1000", None).await? else {
            return Ok(Found::Absent);
        };
        if page.is_empty() && page.next.is_none() && !key.is_empty() {
            // Nothing is below it: it is a file, or not there.
            return self.stat(key).await;
        }
        let own = directory(&prefix, &page);
        let mut children = Children::default();
        let mut directories = Vec::new();
        let many = |_| self.http.nonsense("a bucket with too many names");
        loop {
            for object in std::mem::take(&mut page.objects) {
                // What makes the directory itself is no child of it.
                if let Some(name) = object.key.strip_prefix(prefix.as_bytes())
                    && !name.is_empty()
                {
                    children
                        .push(name.into(), file(object.clone()))
                        .map_err(many)?;
                }
            }
            for name in std::mem::take(&mut page.prefixes) {
                let name = name.strip_prefix(prefix.as_bytes());
                if let Some(name) = name.and_then(|n| n.strip_suffix(b"/")) {
                    directories.push(Box::from(name));
                }
            }
            let Some(next) = page.next.take() else { break };
            let more = self.page(&prefix, "1000", Some(&next)).await?;
            page =
                more.ok_or_else(|| self.http.nonsense("a listing whose next page is not there"))?;
            if page.next.as_deref() == Some(&next) {
                return Err(self.http.nonsense("a listing without end"));
            }
            if directories.len() > crate::question::CHILDREN_MAX {
                return Err(self.http.nonsense("a bucket with too many names"));
            }
        }
        // After the objects: of two that have one name, the last is taken.
        for name in directories {
            let attributes = Attributes::of(Kind::Directory);
            children.push(name, attributes).map_err(many)?;
        }
        Ok(children.finish(own))
    }
}

impl Page {
    fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.prefixes.is_empty()
    }
}

/// What all keys below a path begin with.
fn below(key: &str) -> String {
    match key {
        "" => String::new(),
        key => format!("{key}/"),
    }
}

fn file(object: Object) -> Attributes {
    let mut attributes = Attributes {
        kind: Kind::File,
        size: object.size,
        modified: object.modified,
        ..Attributes::default()
    };
    if let Some(etag) = object.etag {
        unix::add(&mut attributes, "etag", &etag);
    }
    attributes
}

/// A directory's own attributes: the time of the object that makes it, if one does.
fn directory(prefix: &str, page: &Page) -> Attributes {
    let own = page.objects.iter().find(|o| o.key == prefix.as_bytes());
    Attributes {
        kind: Kind::Directory,
        modified: own.and_then(|o| o.modified),
        ..Attributes::default()
    }
}
