//! WebDAV: one PROPFIND returns the attributes of a path, or of a directory and its children.
//!
//! HTTP/1.1 pipelining is not reliable: each request in flight takes a kept connection, or a stream of one connection if the
//! server offers HTTP/2. Names are bytes, as far as servers allow.

mod xml;

use crate::children::Children;
use crate::error::{Error, Result, printable};
use crate::http::{Http, HttpResponse, MANY_MAX, ONE_MAX};
use crate::origin_url::{OriginUrl, Scheme, percent_encode};
use crate::request::{MetadataRequest, PathMetadata};
use crate::session::{Connect, Session};
use esker_site_cache::entry::{Kind, Wants};
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, header};
use http_body_util::Full;
use hyper::body::Bytes;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use url::Url;
use xml::Response;
pub(crate) use xml::date;

/// Redirections that are followed; most lead to the name with a trailing `/`.
const REDIRECTS_MAX: usize = 3;

const BODY: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:propfind xmlns:D=\"DAV:\"><D:prop><D:resourcetype/>\
    <D:getcontentlength/><D:getlastmodified/><D:getetag/></D:prop></D:propfind>";

const LOGIN: &str = "put `machine HOST login USER password WORD` into ~/.netrc";

/// A WebDAV server as an origin.
pub struct Dav {
    origin_url: OriginUrl,
    inner: Arc<DavClient>,
}

struct DavClient {
    http: Http,
    /// `http://host:port`, without a path.
    base: String,
    authority: String,
    login: Option<HeaderValue>,
    about: Mutex<String>,
}

impl Dav {
    /// Creates the origin, with user and password if `login` is given. `silence` is the time after which a server
    /// that sends nothing
    /// has failed.
    ///
    /// # Errors
    /// Returns `Denied` if the password would be sent in clear text to another machine, `InvalidName` if the host is invalid.
    pub fn new(
        origin_url: OriginUrl,
        login: Option<(&str, &str)>,
        silence: Duration,
    ) -> Result<Self> {
        let origin: Box<str> = origin_url.to_string().into();
        let scheme = match origin_url.scheme {
            Scheme::Davs => "https",
            _ => "http",
        };
        let near = ["localhost", "127.0.0.1", "::1"].contains(&&*origin_url.host);
        if login.is_some() && scheme == "http" && !near {
            return Err(Error::Denied {
                origin,
                why: "a password is not sent over the network in clear text; use davs://".into(),
            });
        }
        let authority = origin_url.authority();
        let base = format!("{scheme}://{authority}");
        if base.parse::<http::Uri>().is_err() || Url::parse(&base).is_err() {
            return Err(Error::InvalidName {
                what: origin,
                why: "this is not a host name".into(),
            });
        }
        let inner = DavClient {
            http: Http::new(origin, scheme == "https", silence)?,
            base,
            authority,
            login: login.and_then(|(user, word)| basic(user, word)),
            about: Mutex::default(),
        };
        Ok(Self {
            origin_url,
            inner: Arc::new(inner),
        })
    }
}

/// The `Authorization` header of RFC 7617; must not appear in any message.
fn basic(user: &str, word: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!(
        "Basic {}",
        base64(format!("{user}:{word}").as_bytes())
    ))
    .ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Encodes bytes in base64 (RFC 4648, section 4).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |n, i| {
            n << 8 | u32::from(part.get(i).copied().unwrap_or(0))
        });
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= part.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    out
}

impl Connect for Dav {
    fn origin_url(&self) -> &OriginUrl {
        &self.origin_url
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(async {
            let inner = self.inner.clone();
            inner.greet().await?;
            Ok(Arc::new(DavSession { inner }) as Arc<dyn Session>)
        })
    }
}

struct DavSession {
    inner: Arc<DavClient>,
}

impl Session for DavSession {
    fn request(&self, request: MetadataRequest) -> BoxFuture<'_, Result<PathMetadata>> {
        Box::pin(async move { self.inner.answer(&request).await })
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

impl DavClient {
    async fn send(
        &self,
        method: &str,
        url: &str,
        depth: Option<&'static str>,
    ) -> Result<HttpResponse> {
        let mut request = Request::builder().method(method).uri(url);
        request = request.header(header::USER_AGENT, "esker");
        if let Some(login) = &self.login {
            request = request.header(header::AUTHORIZATION, login);
        }
        let mut body = "";
        if let Some(depth) = depth {
            request = request
                .header("depth", depth)
                .header(header::CONTENT_TYPE, "application/xml; charset=utf-8");
            body = BODY;
        }
        let request = request.body(Full::new(Bytes::from_static(body.as_bytes())));
        let request = request.map_err(|e| Error::InvalidName {
            what: printable(url.as_bytes()),
            why: e.to_string().into(),
        })?;
        let most = if depth == Some("1") {
            MANY_MAX
        } else {
            ONE_MAX
        };
        self.http.send(request, most).await
    }

    /// Asks for the server's name and checks that it accepts the login.
    async fn greet(&self) -> Result<()> {
        let answer = self
            .send("OPTIONS", &format!("{}/", self.base), None)
            .await?;
        if answer.status.as_u16() == 401 {
            return Err(self.http.refused(answer.status, "", LOGIN));
        }
        let server = answer.header("server").unwrap_or("a server without a name");
        let classes = answer.header("dav").unwrap_or("nothing said");
        let about = format!("{server}, WebDAV classes: {classes}");
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) =
            printable(about.as_bytes()).into();
        Ok(())
    }

    async fn answer(&self, request: &MetadataRequest) -> Result<PathMetadata> {
        let depth = match request.wants {
            Wants::Stat => "0",
            Wants::List => "1",
        };
        let mut url = format!("{}{}", self.base, percent_encode(&request.path, b"/"));
        let mut path = request.path.to_vec();
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.send("PROPFIND", &url, Some(depth)).await?;
            match answer.status.as_u16() {
                207 => return self.read(&answer.body, &path, request.wants),
                404 | 410 => return Ok(PathMetadata::Absent),
                301 | 302 | 307 | 308 => {
                    url = self.redirected(&url, &answer)?;
                    path = xml::path_of(&url);
                }
                401 => return Err(self.http.refused(answer.status, "", LOGIN)),
                405 => {
                    let help = "there is no WebDAV at this path; is it further down, or up?";
                    return Err(self.http.refused(answer.status, "", help));
                }
                200..=299 => {
                    let help = "an answer that is not WebDAV's; is it a login page?";
                    return Err(self.http.protocol_error(help));
                }
                _ => return Err(self.http.refused(answer.status, "", "")),
            }
        }
        Err(self.http.protocol_error("redirections without end"))
    }

    /// Resolves a redirection. Only redirections within the server are followed, so that no other server gets the password.
    fn redirected(&self, from: &str, answer: &HttpResponse) -> Result<String> {
        let to = answer.header("location").unwrap_or_default();
        let url = Url::parse(from).and_then(|url| url.join(to));
        let within = |url: &Url| {
            let port = url.port_or_known_default().unwrap_or_default();
            let host = url.host_str().unwrap_or_default();
            format!("{}://{host}:{port}", url.scheme()) == self.base
        };
        match url {
            Ok(url) if within(&url) => Ok(url.into()),
            _ => Err(Error::Unsupported {
                origin: self.http.origin().into(),
                why: format!(
                    "{} redirects to {}; use that address",
                    self.authority,
                    printable(to.as_bytes())
                )
                .into(),
            }),
        }
    }

    fn read(&self, body: &[u8], path: &[u8], wants: Wants) -> Result<PathMetadata> {
        let mut asked = path;
        while asked.len() > 1 && asked.last() == Some(&b'/') {
            asked = &asked[..asked.len() - 1];
        }
        let mut own: Option<Response> = None;
        let mut others = Vec::new();
        let read = xml::responses(body, |response| {
            if others.len() >= crate::request::CHILDREN_MAX {
                return Err("a directory with too many names".into());
            }
            if response.path == asked {
                own = Some(response);
            } else {
                others.push(response);
            }
            Ok(())
        });
        read.map_err(|why| self.http.protocol_error(&why))?;
        // If no path matches, a proxy has changed the paths: the shortest path, a prefix of all others, is the requested one.
        if own.is_none()
            && let Some(at) = (0..others.len()).min_by_key(|at| others[*at].path.len())
        {
            own = Some(others.swap_remove(at));
        }
        let Some(own) = own else {
            return Err(self
                .http
                .protocol_error("an answer that describes no resource"));
        };
        match own.status {
            Some(404 | 410) => return Ok(PathMetadata::Absent),
            Some(status) if status >= 400 => {
                let status = http::StatusCode::from_u16(status).unwrap_or_default();
                return Err(self.http.refused(status, "", ""));
            }
            _ => {}
        }
        if wants == Wants::Stat || own.attributes.kind != Kind::Directory {
            return Ok(PathMetadata::Present(own.attributes));
        }
        let mut before = own.path;
        if before != b"/" {
            before.push(b'/');
        }
        let mut children = Children::default();
        for response in others {
            let Some(name) = response.path.strip_prefix(&before[..]) else {
                children.cut();
                continue;
            };
            if response.status.is_some_and(|status| status >= 400) {
                // The entry is listed without usable attributes.
                children.cut();
                continue;
            }
            let taken = children.push(name.into(), response.attributes);
            taken.map_err(|_| self.http.protocol_error("a directory with too many names"))?;
        }
        Ok(children.finish(own.attributes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_stay_at_home() {
        let origin_url = |url: &str| OriginUrl::parse(url).unwrap().0;
        let dav = |url: &str| Dav::new(origin_url(url), Some(("u", "w")), Duration::from_secs(1));
        assert!(dav("dav://host/").is_err());
        assert!(dav("davs://host/").is_ok() && dav("dav://127.0.0.1:1/").is_ok());
        let inner = dav("davs://host/").unwrap().inner;
        let to = |location: &str| {
            let mut headers = http::HeaderMap::new();
            headers.insert("location", location.parse().unwrap());
            let answer = HttpResponse::of(http::StatusCode::FOUND, headers);
            inner.redirected("https://host:443/a", &answer)
        };
        assert_eq!(to("/a/").unwrap(), "https://host/a/");
        assert_eq!(to("https://host/a/").unwrap(), "https://host/a/");
        for bad in [
            "https://other/",
            "http://host/a/",
            "https://host:444/",
            "//x",
        ] {
            assert!(to(bad).is_err(), "{bad}");
        }
        assert_eq!(
            base64(b"Aladdin:open sesame"),
            "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
        );
        assert_eq!((base64(b"ab"), base64(b"")), ("YWI=".into(), String::new()));
        assert!(!format!("{:?}", basic("u", "w")).contains("dTp3"));
    }
}
