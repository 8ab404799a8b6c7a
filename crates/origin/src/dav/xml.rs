//! Parser of WebDAV multistatus documents (RFC 4918).

use crate::origin_url::percent_decode;
use esker_site_cache::entry::{Attributes, Kind};
use jiff::fmt::rfc2822::DateTimeParser;
use quick_xml::NsReader;
use quick_xml::escape::unescape;
use quick_xml::events::Event;
use quick_xml::name::{Namespace, ResolveResult};

/// Description of an invalid document.
pub(crate) type XmlError = String;

/// One `response` element: what a server returns for one path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Response {
    /// The path, as bytes without escapes and without a trailing `/`.
    pub(crate) path: Vec<u8>,
    /// HTTP status of the path itself, if the response has no properties.
    pub(crate) status: Option<u16>,
    /// Attributes taken from the properties with status 200.
    pub(crate) attributes: Attributes,
}

/// Maximum nesting of elements; the deepest element that is read is at depth 6.
const DEPTH_MAX: usize = 64;

/// Returns the path of an `href`, which may be a full URL.
pub(crate) fn path_of(href: &str) -> Vec<u8> {
    let path = match href.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => href,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut path = percent_decode(path.as_bytes());
    while path.len() > 1 && path.last() == Some(&b'/') {
        path.pop();
    }
    path
}

/// Parses an HTTP date to nanoseconds since 1970.
pub(crate) fn date(text: &str) -> Option<i64> {
    let time = DateTimeParser::new().parse_timestamp(text.trim()).ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}

/// Returns the number in `HTTP/1.1 200 OK`.
fn status(text: &str) -> Option<u16> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The properties with one status.
#[derive(Default)]
struct Group {
    status: Option<u16>,
    attributes: Attributes,
    /// Whether `resourcetype` was present; an empty one means a file.
    typed: bool,
}

/// The element around the current position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Multistatus,
    Response,
    Href,
    Status,
    Propstat,
    Prop,
    Type,
    Length,
    Modified,
    Tag,
    Other,
}

fn at(name: &str, parent: Option<At>) -> At {
    match (parent, name) {
        (None, "multistatus") => At::Multistatus,
        (Some(At::Multistatus), "response") => At::Response,
        (Some(At::Response), "href") => At::Href,
        (Some(At::Response | At::Propstat), "status") => At::Status,
        (Some(At::Response), "propstat") => At::Propstat,
        (Some(At::Propstat), "prop") => At::Prop,
        (Some(At::Prop), "resourcetype") => At::Type,
        (Some(At::Prop), "getcontentlength") => At::Length,
        (Some(At::Prop), "getlastmodified") => At::Modified,
        (Some(At::Prop), "getetag") => At::Tag,
        _ => At::Other,
    }
}

/// Parses a document and passes each response to `each`; an error of `each` ends parsing.
pub(crate) fn responses(
    body: &[u8],
    mut each: impl FnMut(Response) -> Result<(), XmlError>,
) -> Result<(), XmlError> {
    let mut reader = NsReader::from_reader(body);
    reader.config_mut().expand_empty_elements = true;
    let mut path: Vec<At> = Vec::new();
    let mut text = String::new();
    let mut response = Response::default();
    let mut group = Group::default();
    let mut seen = false;
    loop {
        let (namespace, event) = reader
            .read_resolved_event()
            .map_err(|e| format!("a document that is not XML: {e}"))?;
        let dav = namespace == ResolveResult::Bound(Namespace("DAV:"));
        match event {
            Event::Start(element) => {
                if path.len() >= DEPTH_MAX {
                    return Err("a document with elements nested too deeply".into());
                }
                let name = element.local_name();
                let here = if dav {
                    at(name.as_ref(), path.last().copied())
                } else {
                    At::Other
                };
                match here {
                    At::Multistatus => seen = true,
                    At::Response => response = Response::default(),
                    At::Propstat => group = Group::default(),
                    At::Type => group.typed = true,
                    At::Other
                        if dav
                            && path.last() == Some(&At::Type)
                            && name.as_ref() == "collection" =>
                    {
                        group.attributes.kind = Kind::Directory;
                    }
                    _ => {}
                }
                text.clear();
                path.push(here);
            }
            Event::Text(part) => {
                text.push_str(&part);
            }
            Event::GeneralRef(name) => {
                let part = format!("&{};", &*name);
                let part = unescape(&part).map_err(|e| format!("a document that is not XML: {e}"));
                text.push_str(&part?);
            }
            Event::CData(part) => {
                text.push_str(&part);
            }
            Event::End(_) => {
                let ended = path.pop();
                let parent = path.last().copied();
                let value = text.trim();
                match ended {
                    Some(At::Href) => response.path = path_of(value),
                    Some(At::Status) if parent == Some(At::Response) => {
                        response.status = status(value);
                    }
                    Some(At::Status) => group.status = status(value),
                    Some(At::Length) => group.attributes.size = value.parse().ok(),
                    Some(At::Modified) => group.attributes.modified = date(value),
                    Some(At::Tag) if !value.is_empty() && value.len() <= 1024 => {
                        let tag = ("etag".into(), value.trim_matches('"').into());
                        group.attributes.more = Some([tag].into());
                    }
                    Some(At::Propstat) => settle(&mut response, std::mem::take(&mut group)),
                    Some(At::Response) => each(std::mem::take(&mut response))?,
                    _ => {}
                }
                text.clear();
            }
            Event::DocType(_) => return Err("a document with a type of its own".into()),
            Event::Eof => break,
            _ => {}
        }
    }
    if seen && path.is_empty() {
        Ok(())
    } else {
        Err("something other than a complete multistatus document".into())
    }
}

/// Copies the attributes of properties with status 200 to the response; ignores other properties.
fn settle(response: &mut Response, group: Group) {
    if group.status.is_some_and(|status| status != 200) {
        return;
    }
    let known = &mut response.attributes;
    let Attributes {
        kind,
        size,
        modified,
        more,
        ..
    } = group.attributes;
    if group.typed {
        known.kind = match kind {
            Kind::Directory => Kind::Directory,
            _ => Kind::File,
        };
    }
    known.size = size.or(known.size);
    known.modified = modified.or(known.modified);
    if more.is_some() {
        known.more = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<Response>, XmlError> {
        let mut all = Vec::new();
        responses(text.as_bytes(), |r| {
            all.push(r);
            Ok(())
        })?;
        Ok(all)
    }

    const DOCUMENT: &str = "<?xml version='1.0'?>\
        <d:multistatus xmlns:d='DAV:' xmlns='http://other/'><d:response><d:href>http://h:80/a%20b/?x</d:href><d:propstat><d:prop>\
        <d:resourcetype><d:collection/></d:resourcetype><d:getlastmodified>Mon, 12 Jan 1998 09:25:56 GMT</d:getlastmodified>\
        </d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat><d:propstat><d:prop><d:getcontentlength>9</d:getcontentlength>\
        </d:prop><d:status>HTTP/1.1 404 Not Found</d:status></d:propstat></d:response><d:response><d:href>/a%20b/%FF&amp;</d:href>\
        <d:propstat><d:prop><d:resourcetype/><d:getcontentlength> 12 </d:getcontentlength><getcontentlength>7</getcontentlength>\
        <d:getetag>\"e\"</d:getetag></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>\
        <d:response><d:href>/gone</d:href><d:status>HTTP/1.1 404 Gone</d:status></d:response></d:multistatus>";

    #[test]
    fn what_servers_say_is_understood() {
        let all = read(DOCUMENT).unwrap();
        assert_eq!(all[0].path, b"/a b");
        assert_eq!(all[0].attributes.kind, Kind::Directory);
        assert_eq!(all[0].attributes.size, None);
        assert_eq!(all[0].attributes.modified, Some(884_597_156_000_000_000));
        assert_eq!(all[1].path, b"/a b/\xff&");
        assert_eq!(all[1].attributes.kind, Kind::File);
        assert_eq!(all[1].attributes.size, Some(12));
        assert_eq!(all[1].attributes.more.as_ref().unwrap()[0].1, "e".into());
        assert_eq!((all[2].status, all.len()), (Some(404), 3));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for bad in [
            "",
            "<html><body>Log in</body></html>",
            "<multistatus/>",
            "<!DOCTYPE x [<!ENTITY a 'b'>]><x/>",
            "<d:multistatus xmlns:d='DAV:'><d:response>",
            "<d:multistatus xmlns:d='DAV:'>&bomb;</d:multistatus>",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(&"<a>".repeat(1000)).is_err());
    }

    proptest! {
        /// Truncated, changed and random documents cause no panic.
        #[test]
        fn any_bytes_are_read_or_refused(
            junk in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0..DOCUMENT.len(),
            to in 0..DOCUMENT.len(),
            byte: u8,
        ) {
            let _ = responses(&junk, |_| Ok(()));
            prop_assert!(responses(&DOCUMENT.as_bytes()[..cut], |_| Ok(())).is_err());
            let mut changed = DOCUMENT.as_bytes().to_vec();
            changed[to] = byte;
            let _ = responses(&changed, |_| Ok(()));
            let _ = path_of(&String::from_utf8_lossy(&junk));
            let _ = date(&String::from_utf8_lossy(&junk));
        }
    }
}
