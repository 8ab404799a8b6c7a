//! Origin check: whether a browser may have sent a request for a page of another site, so that the owner of the browser's process is
//! not its principal.

use esker_access::peer::is_this_machine;
use http::{HeaderMap, HeaderName, Uri, header};

/// Headers by which proxies mark forwarded requests.
const FORWARDED: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];

/// Returns the text of a header: empty if it is not text or occurs several times.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    let one = values.next().is_none();
    Some(first.to_str().ok().filter(|_| one).unwrap_or_default())
}

/// Whether a loopback request may come from a page of another site. It does not if its host is this machine for every resolver
/// (a foreign name may resolve to this machine), its origin, if it has one, is that host and port, and the browser, if it says so,
/// sent it for a page of the same site. The body does not matter.
pub(super) fn is_of_another_site(headers: &HeaderMap, uri: &Uri) -> bool {
    let authority = uri.authority().map(http::uri::Authority::as_str);
    let named = text(headers, header::HOST);
    if let (Some(named), Some(authority)) = (named, authority)
        && !named.eq_ignore_ascii_case(authority)
    {
        return true;
    }
    let Some(host) = named.or(authority) else {
        return true;
    };
    let origin = text(headers, header::ORIGIN);
    let site = origin.map(|o| o.split_once("://").map_or(o, |(_, site)| site));
    let fetched = text(headers, HeaderName::from_static("sec-fetch-site"));
    !is_this_machine(host)
        || site.is_some_and(|site| !site.eq_ignore_ascii_case(host))
        || fetched.is_some_and(|by| !["same-origin", "none"].contains(&by))
}

/// Whether a proxy forwarded the request: the user of the proxy's process is not its principal.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    FORWARDED.iter().any(|name| headers.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_foreign(uri: &str, headers: &[(&'static str, &str)]) -> bool {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(*name, value.parse().unwrap());
        }
        is_of_another_site(&all, &uri.parse().unwrap())
    }

    #[test]
    fn pages_of_other_sites_are_told_from_programs() {
        for (uri, headers) in [
            ("/v1/stat", &[("host", "127.0.0.1:7500")][..]),
            (
                "/",
                &[
                    ("host", "localhost:7500"),
                    ("origin", "http://localhost:7500"),
                ],
            ),
            ("/", &[("host", "[::1]:7500"), ("sec-fetch-site", "none")]),
            (
                "http://127.0.0.1:7500/esker.v1.Site/Link",
                &[("content-type", "application/grpc")],
            ),
        ] {
            assert!(!is_foreign(uri, headers), "{uri} {headers:?}");
        }
        for (uri, headers) in [
            ("/", &[][..]),
            // A foreign name that resolves to this machine.
            ("/", &[("host", "evil.example:7500")]),
            (
                "/",
                &[
                    ("host", "evil.example:7500"),
                    ("content-type", "application/grpc"),
                ],
            ),
            (
                "http://evil.example:7500/esker.v1.Site/Link",
                &[("content-type", "application/grpc")],
            ),
            ("/", &[("host", "edge:7500")]),
            ("http://evil.example/", &[("host", "127.0.0.1:7500")]),
            ("/", &[("host", "127.0.0.1:7500"), ("host", "evil.example")]),
            // Another site of this machine, and one that is not named.
            (
                "/",
                &[
                    ("host", "127.0.0.1:7500"),
                    ("origin", "http://127.0.0.1:8888"),
                ],
            ),
            ("/", &[("host", "127.0.0.1:7500"), ("origin", "null")]),
            (
                "/",
                &[
                    ("host", "127.0.0.1:7500"),
                    ("origin", "https://evil.example"),
                ],
            ),
            (
                "/",
                &[("host", "127.0.0.1:7500"), ("sec-fetch-site", "cross-site")],
            ),
            (
                "/",
                &[("host", "127.0.0.1:7500"), ("sec-fetch-site", "same-site")],
            ),
        ] {
            assert!(is_foreign(uri, headers), "{uri} {headers:?}");
        }
    }
}
