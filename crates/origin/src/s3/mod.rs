//! S3 and compatible services: a bucket as a file system, keys split at `/`.
//!
//! A bucket has no directories. A path is a file if an object has that key, and a directory if there are keys below it; if both,
//! it is a directory, so that the keys below are reachable. An object whose key ends in `/` only makes a directory without
//! children. The attributes of a path take two requests, sent together; a listing takes one for each thousand names. Names that
//! are not UTF-8 are absent: keys are text.
//!
//! URLs are `s3://bucket/path` or `s3://profile@bucket/path`. [`Config`] describes credentials. Each request in flight takes a
//! kept connection, or a stream of one connection if the server offers HTTP/2.

mod config;
mod xml;

use crate::children::Children;
use crate::error::{Error, Result};
use crate::http::{Http, HttpResponse, ONE_MAX};
use crate::origin_url::{OriginUrl, percent_encode};
use crate::request::{MetadataRequest, PathMetadata};
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

/// Maximum length of a key in bytes.
const KEY_MAX: usize = 1024;
/// Validity of a signature in seconds: clocks differ, and requests may wait.
const SIGNED_SECONDS: u64 = 900;
const REGION: &str = "us-east-1";
const KEYS: &str =
    "are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or ~/.aws/credentials right?";

/// A bucket as an origin.
pub struct S3 {
    origin_url: OriginUrl,
    inner: Arc<S3Client>,
}

struct S3Client {
    http: Http,
    /// URL of the bucket, without a trailing `/`.
    base: Url,
    config: Config,
    region: Mutex<Box<str>>,
    about: Mutex<String>,
}

impl S3 {
    /// Creates the origin; the URL's host is the bucket. `silence` is the time after which a server that sends
    /// nothing has failed.
    pub fn new(origin_url: OriginUrl, config: Config, silence: Duration) -> Result<Self> {
        let origin: Box<str> = origin_url.to_string().into();
        let bad = |why: &str| Error::InvalidName {
            what: origin.clone(),
            why: why.into(),
        };
        let bucket = &*origin_url.host;
        let sound = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.starts_with('.') || !bucket.chars().all(sound) {
            return Err(bad(
                "this is not a bucket name; it has letters, digits, dots and hyphens",
            ));
        }
        let region = config.region.clone().unwrap_or_else(|| REGION.into());
        if !region
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-')
        {
            return Err(bad("AWS_REGION is not the name of a region"));
        }
        let text = match &config.endpoint {
            Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
            // Wildcard certificates cover a single label.
            None if bucket.contains('.') => format!("https://s3.{region}.amazonaws.com/{bucket}"),
            None => format!("https://{bucket}.s3.{region}.amazonaws.com"),
        };
        let base = Url::parse(&text).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.has_host() && url.username().is_empty()
        });
        let base = base.ok_or_else(|| {
            bad("AWS_ENDPOINT_URL, or endpoint_url in ~/.aws/config, is not http[s]://HOST[:PORT]")
        })?;
        let inner = S3Client {
            http: Http::new(origin, base.scheme() == "https", silence)?,
            base,
            config,
            region: Mutex::new(region),
            about: Mutex::default(),
        };
        Ok(Self {
            origin_url,
            inner: Arc::new(inner),
        })
    }
}

impl Connect for S3 {
    fn origin_url(&self) -> &OriginUrl {
        &self.origin_url
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(async {
            let inner = self.inner.clone();
            inner.greet().await?;
            Ok(Arc::new(S3Session { inner }) as Arc<dyn Session>)
        })
    }
}

struct S3Session {
    inner: Arc<S3Client>,
}

impl Session for S3Session {
    fn request(&self, request: MetadataRequest) -> BoxFuture<'_, Result<PathMetadata>> {
        Box::pin(async move {
            let Ok(path) = str::from_utf8(&request.path) else {
                return Ok(PathMetadata::Absent);
            };
            let key = path.strip_prefix('/').unwrap_or(path);
            if key.len() > KEY_MAX {
                return Ok(PathMetadata::Absent);
            }
            match request.wants {
                Wants::Stat => self.inner.stat(key).await,
                Wants::List => self.inner.list(key).await,
            }
        })
    }

    fn width(&self) -> usize {
        self.inner.http.width()
    }

    /// Always false: the HTTP client replaces broken connections itself.
    fn is_broken(&self) -> bool {
        false
    }

    fn about(&self) -> String {
        let about = self.inner.about.lock();
        about.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl S3Client {
    async fn send(
        &self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
    ) -> Result<HttpResponse> {
        let mut url = self.base.clone();
        let before = url.path().trim_end_matches('/');
        let path = match key {
            "" => before.to_owned(),
            key => format!("{before}/{}", percent_encode(key.as_bytes(), b"/")),
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
                .map(|(k, v)| format!("{k}={}", percent_encode(v.as_bytes(), b"")))
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
        // The error message must not contain the URL, which is signed.
        let request = request
            .body(Full::default())
            .map_err(|_| Error::InvalidName {
                what: key.into(),
                why: "this cannot be expressed in a URL".into(),
            })?;
        // A page has a thousand keys at most.
        self.http.send(request, ONE_MAX).await
    }

    /// Finds the bucket's region if it differs from the configured one.
    async fn greet(&self) -> Result<()> {
        let answer = self.send(Method::Head, "", &[]).await?;
        let sound =
            |r: &&str| r.len() < 64 && r.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if let Some(region) = answer.header("x-amz-bucket-region").filter(sound) {
            *self.region.lock().unwrap_or_else(PoisonError::into_inner) = region.into();
        }
        let server = answer.header("server").unwrap_or("a server without a name");
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) =
            crate::error::printable(server.as_bytes()).into();
        Ok(())
    }

    fn refused(&self, answer: &HttpResponse) -> Error {
        let (code, words) = xml::error(&answer.body);
        let origin = self.http.origin().into();
        let why = format!("{code}: {}", crate::error::printable(words.as_bytes())).into();
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

    /// Returns the attributes of the object with exactly this key; an error if that cannot be determined.
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

    /// Returns a page of keys that begin with `prefix`; `None` if the bucket does not exist.
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
                Ok(Some(page.map_err(|why| self.http.protocol_error(&why))?))
            }
            404 => Ok(None),
            _ => Err(self.refused(&answer)),
        }
    }

    async fn stat(&self, key: &str) -> Result<PathMetadata> {
        let prefix = prefix_of(key);
        let below = self.page(&prefix, "1", None);
        if key.is_empty() {
            return Ok(match below.await? {
                Some(_) => PathMetadata::Present(Attributes::of(Kind::Directory)),
                None => PathMetadata::Absent,
            });
        }
        match join(self.head(key), below).await {
            (_, Ok(Some(page))) if !page.is_empty() => {
                Ok(PathMetadata::Present(directory(&prefix, &page)))
            }
            (Ok(Some(attributes)), _) => Ok(PathMetadata::Present(attributes)),
            (Ok(None), Ok(_)) => Ok(PathMetadata::Absent),
            // A principal with permission to list but not to read gets attributes from a listing.
            (Err(Error::Denied { .. }), Ok(_)) => {
                let page = self.page(key, "1", None).await?.unwrap_or_default();
                let object = page.objects.into_iter().find(|o| o.key == key.as_bytes());
                Ok(object.map_or(PathMetadata::Absent, |o| PathMetadata::Present(file(o))))
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    async fn list(&self, key: &str) -> Result<PathMetadata> {
        let prefix = prefix_of(key);
        let Some(mut page) = self.page(&prefix, "1000", None).await? else {
            return Ok(PathMetadata::Absent);
        };
        if page.is_empty() && page.next.is_none() && !key.is_empty() {
            // No keys are below it: it is a file, or absent.
            return self.stat(key).await;
        }
        let own = directory(&prefix, &page);
        let mut children = Children::default();
        let mut directories = Vec::new();
        let many = |_| self.http.protocol_error("a bucket with too many names");
        loop {
            for object in std::mem::take(&mut page.objects) {
                // The object that makes the directory is not a child.
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
            page = more.ok_or_else(|| {
                self.http
                    .protocol_error("a listing whose next page is missing")
            })?;
            if page.next.as_deref() == Some(&next) {
                return Err(self.http.protocol_error("a listing without end"));
            }
            if directories.len() > crate::request::CHILDREN_MAX {
                return Err(self.http.protocol_error("a bucket with too many names"));
            }
        }
        // Directories come after objects: the last entry with a name counts.
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

/// Returns the prefix of all keys below a path.
fn prefix_of(key: &str) -> String {
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

/// Returns a directory's attributes: the time of the object that makes it, if there is one.
fn directory(prefix: &str, page: &Page) -> Attributes {
    let own = page.objects.iter().find(|o| o.key == prefix.as_bytes());
    Attributes {
        kind: Kind::Directory,
        modified: own.and_then(|o| o.modified),
        ..Attributes::default()
    }
}
