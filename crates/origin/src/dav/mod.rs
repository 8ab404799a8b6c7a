//! WebDAV: one PROPFIND tells of a path, one of a directory and all that stands in it.
//!
//! HTTP/1.1 has no pipelining that can be relied on: questions in flight are requests on as many kept connections, or streams
//! of one where the server offers HTTP/2. Names are bytes, as far as servers let them be.

mod xml;

use crate::children::Children;
use crate::error::{Error, Result, shown};
use crate::http::{Answer, Http, MANY_MAX, ONE_MAX};
use crate::place::{Place, Scheme, escaped};
use crate::question::{Found, Question};
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

/// Redirections that are followed: to the name with `/` at its end, mostly.
const REDIRECTS_MAX: usize = 3;

const BODY: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:propfind xmlns:D=\"DAV:\"><D:prop><D:resourcetype/>\
    <D:getcontentlength/><D:getlastmodified/><D:getetag/></D:prop></D:propfind>";

const LOGIN: &str = "put `machine HOST login USER password WORD` into ~/.netrc";

/// Connections to a WebDAV server.
pub struct Dav {
    place: Place,
    inner: Arc<Inner>,
}

struct Inner {
    http: Http,
    /// `http://host:port`, without a path.
    base: String,
    authority: String,
    login: Option<HeaderValue>,
    about: Mutex<String>,
}

impl Dav {
    /// To a place, as somebody with a password if there is one. `silence` is how long a server may say nothing.
    ///
    /// A password goes to another machine over TLS only.
    pub fn new(place: Place, login: Option<(&str, &str)>, silence: Duration) -> Result<Self> {
        let origin: Box<str> = place.to_string().into();
        let scheme = match place.scheme {
            Scheme::Davs => "https",
            _ => "http",
        };
        let near = ["localhost", "127.0.0.1", "::1"].contains(&&*place.host);
        if login.is_some() && scheme == "http" && !near {
            return Err(Error::Denied {
                origin,
                why: "a password does not go over the network in clear text; use davs://".into(),
            });
        }
        let authority = place.authority();
        let base = format!("{scheme}://{authority}");
        if base.parse::<http::Uri>().is_err() || Url::parse(&base).is_err() {
            return Err(Error::Named {
                what: origin,
                why: "this is no name of a host".into(),
            });
        }
        let inner = Inner {
            http: Http::new(origin, scheme == "https", silence)?,
            base,
            authority,
            login: login.and_then(|(user, word)| basic(user, word)),
            about: Mutex::default(),
        };
        Ok(Self {
            place,
            inner: Arc::new(inner),
        })
    }
}

/// The header of RFC 7617, which is not to be shown anywhere.
fn basic(user: &str, word: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!(
        "Basic {}",
        base64(format!("{user}:{word}").as_bytes())
    ))
    .ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// RFC 4648, section 4.
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
    fn place(&self) -> &Place {
        &self.place
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(async {
            let inner = self.inner.clone();
            inner.greet().await?;
            Ok(Arc::new(Sites { inner }) as Arc<dyn Session>)
        })
    }
}

struct Sites {
    inner: Arc<Inner>,
}

impl Session for Sites {
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<Found>> {
        Box::pin(async move { self.inner.answer(&question).await })
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
    async fn send(&self, method: &str, url: &str, depth: Option<&'static str>) -> Result<Answer> {
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
        let request = request.map_err(|e| Error::Named {
            what: shown(url.as_bytes()),
            why: e.to_string().into(),
        })?;
        let most = if depth == Some("1") {
            MANY_MAX
        } else {
            ONE_MAX
        };
        self.http.send(request, most).await
    }

    /// Who the server is, and whether it lets us in.
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
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) = shown(about.as_bytes()).into();
        Ok(())
    }

    async fn answer(&self, question: &Question) -> Result<Found> {
        let depth = match question.wants {
            Wants::Stat => "0",
            Wants::List => "1",
        };
        let mut url = format!("{}{}", self.base, escaped(&question.path, b"/"));
        let mut path = question.path.to_vec();
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.send("PROPFIND", &url, Some(depth)).await?;
            match answer.status.as_u16() {
                207 => return self.read(&answer.body, &path, question.wants),
                404 | 410 => return Ok(Found::Absent),
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
                    let help = "an answer that is not WebDAV's; is it a page to log in?";
                    return Err(self.http.nonsense(help));
                }
                _ => return Err(self.http.refused(answer.status, "", "")),
            }
        }
        Err(self.http.nonsense("redirections without end"))
    }

    /// Only within the server: another one was not named, and must not get the password.
    fn redirected(&self, from: &str, answer: &Answer) -> Result<String> {
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
                    "{} sends elsewhere, to {}; ask there",
                    self.authority,
                    shown(to.as_bytes())
                )
                .into(),
            }),
        }
    }

    fn read(&self, body: &[u8], path: &[u8], wants: Wants) -> Result<Found> {
        let mut asked = path;
        while asked.len() > 1 && asked.last() == Some(&b'/') {
            asked = &asked[..asked.len() - 1];
        }
        let mut own: Option<Response> = None;
        let mut others = Vec::new();
        let read = xml::responses(body, |response| {
            if others.len() >= crate::question::CHILDREN_MAX {
                return Err("a directory with too many names".into());
            }
            if response.path == asked {
                own = Some(response);
            } else {
                others.push(response);
            }
            Ok(())
        });
        read.map_err(|why| self.http.nonsense(&why))?;
        // Behind a proxy that changes paths, the one that all others begin with is the one that was asked about.
        if own.is_none()
            && let Some(at) = (0..others.len()).min_by_key(|at| others[*at].path.len())
        {
            own = Some(others.swap_remove(at));
        }
        let Some(own) = own else {
            return Err(self.http.nonsense("an answer that is about nothing"));
        };
        match own.status {
            Some(404 | 410) => return Ok(Found::Absent),
            Some(status) if status >= 400 => {
                let status = http::StatusCode::from_u16(status).unwrap_or_default();
                return Err(self.http.refused(status, "", ""));
            }
            _ => {}
        }
        if wants == Wants::Stat || own.attributes.kind != Kind::Directory {
            return Ok(Found::Present(own.attributes));
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
                // It is listed, but what it is the server does not tell.
                children.cut();
                continue;
            }
            let taken = children.push(name.into(), response.attributes);
            taken.map_err(|_| self.http.nonsense("a directory with too many names"))?;
        }
        Ok(children.finish(own.attributes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_stay_at_home() {
        let place = |url: &str| Place::parse(url).unwrap().0;
        let dav = |url: &str| Dav::new(place(url), Some(("u", "w")), Duration::from_secs(1));
        assert!(dav("dav://host/").is_err());
        assert!(dav("davs://host/").is_ok() && dav("dav://127.0.0.1:1/").is_ok());
        let inner = dav("davs://host/").unwrap().inner;
        let to = |location: &str| {
            let mut headers = http::HeaderMap::new();
            headers.insert("location", location.parse().unwrap());
            let answer = Answer::of(http::StatusCode::FOUND, headers);
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
