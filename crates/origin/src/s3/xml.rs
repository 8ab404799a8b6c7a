//! Parser of ListObjectsV2 pages and error documents. Servers differ in namespaces, so only local names count.

use crate::origin_url::percent_decode;
use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::Event;

/// Maximum nesting of elements; the deepest element that is read is at depth 3.
const DEPTH_MAX: usize = 32;

/// An object or a common prefix of a page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Object {
    /// The complete key of the object.
    pub(crate) key: Vec<u8>,
    pub(crate) size: Option<u64>,
    /// Modification time in nanoseconds since 1970.
    pub(crate) modified: Option<i64>,
    pub(crate) etag: Option<Box<str>>,
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Object>,
    /// Common prefixes, with the trailing `/`.
    pub(crate) prefixes: Vec<Vec<u8>>,
    /// Continuation token of the next page.
    pub(crate) next: Option<String>,
}

/// Calls `each` for every text with the names of its enclosing elements.
fn texts(body: &[u8], mut each: impl FnMut(&[String], &str)) -> Result<(), String> {
    let wrong = |e: &dyn std::fmt::Display| format!("a document that is not XML: {e}");
    let mut reader = Reader::from_reader(body);
    reader.config_mut().expand_empty_elements = true;
    let mut path: Vec<String> = Vec::new();
    let mut text = String::new();
    loop {
        match reader.read_event().map_err(|e| wrong(&e))? {
            Event::Start(element) => {
                if path.len() >= DEPTH_MAX {
                    return Err("a document with elements nested too deeply".into());
                }
                path.push(element.local_name().as_ref().to_owned());
                text.clear();
            }
            Event::Text(part) => text.push_str(&part),
            Event::GeneralRef(name) => {
                text.push_str(&unescape(&format!("&{};", &*name)).map_err(|e| wrong(&e))?);
            }
            Event::CData(part) => text.push_str(&part),
            Event::End(_) => {
                each(&path, &text);
                path.pop();
                text.clear();
            }
            Event::DocType(_) => return Err("a document with a type of its own".into()),
            Event::Eof if path.is_empty() => return Ok(()),
            Event::Eof => return Err("a document without its end".into()),
            _ => {}
        }
    }
}

/// Decodes a URL-encoded key; XML cannot represent all keys.
fn key(text: &str) -> Vec<u8> {
    percent_decode(text.replace('+', " ").as_bytes())
}

/// Parses a page of a listing.
pub(crate) fn page(body: &[u8]) -> Result<Page, String> {
    let mut page = Page::default();
    let mut object = Object::default();
    let (mut seen, mut encoded, mut cut) = (false, false, false);
    let mut next = None;
    texts(body, |path, text| {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        match names[..] {
            ["ListBucketResult"] => seen = true,
            [_, "EncodingType"] => encoded = text == "url",
            [_, "IsTruncated"] => cut = text == "true",
            [_, "NextContinuationToken"] => next = Some(text.to_owned()),
            [_, "Contents"] => page.objects.push(std::mem::take(&mut object)),
            [_, "Contents", "Key"] => object.key = text.as_bytes().to_vec(),
            [_, "Contents", "Size"] => object.size = text.trim().parse().ok(),
            [_, "Contents", "LastModified"] => object.modified = time(text),
            [_, "Contents", "ETag"] if text.len() <= 1024 => {
                object.etag = Some(text.trim_matches('"').into());
            }
            [_, "CommonPrefixes", "Prefix"] => page.prefixes.push(text.as_bytes().to_vec()),
            _ => {}
        }
    })?;
    if !seen {
        return Err("something other than a listing of a bucket".into());
    }
    // The encoding may be stated after the keys.
    if encoded {
        let keys = page.objects.iter_mut().map(|o| &mut o.key);
        for bytes in keys.chain(&mut page.prefixes) {
            *bytes = key(&String::from_utf8_lossy(bytes));
        }
    }
    if cut {
        page.next =
            Some(next.ok_or("a listing that is incomplete but does not say how to continue")?);
    }
    Ok(page)
}

fn time(text: &str) -> Option<i64> {
    let time: jiff::Timestamp = text.trim().parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}

/// Returns code and message of an error document, as far as it can be read.
pub(crate) fn error(body: &[u8]) -> (String, String) {
    let (mut code, mut words) = (String::new(), String::new());
    // If the document is invalid, only the status counts.
    let _ = texts(&body[..body.len().min(64 << 10)], |path, text| {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        match names[..] {
            ["Error", "Code"] => text.clone_into(&mut code),
            ["Error", "Message"] => text.clone_into(&mut words),
            _ => {}
        }
    });
    (code, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><IsTruncated>true\
        </IsTruncated><Contents><Key>a/b+c%2Bd%0A</Key><LastModified>2009-10-12T17:50:30.250Z</LastModified><ETag>&quot;e&quot;</ETag>\
        <Size>434234</Size><Owner><ID>x</ID><Key>no</Key></Owner></Contents><CommonPrefixes><Prefix>a/%C3%A9/</Prefix></CommonPrefixes>\
        <EncodingType>url</EncodingType><NextContinuationToken>1abG=</NextContinuationToken></ListBucketResult>";

    #[test]
    fn pages_are_understood() {
        let found = page(PAGE.as_bytes()).unwrap();
        let object = Object {
            key: b"a/b c+d\n".into(),
            size: Some(434_234),
            modified: Some(1_255_369_830_250_000_000),
            etag: Some("e".into()),
        };
        let prefixes = vec!["a/é/".as_bytes().to_vec()];
        let next = Some("1abG=".into());
        assert_eq!(
            found,
            Page {
                objects: vec![object],
                prefixes,
                next
            }
        );
        assert!(page(b"<html></html>").is_err() && page(b"").is_err());
        assert!(
            page(b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>").is_err()
        );
        let denied = b"<Error><Code>AccessDenied</Code><Message>No.</Message></Error>";
        assert_eq!(error(denied), ("AccessDenied".into(), "No.".into()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            junk in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0..PAGE.len(),
            to in 0..PAGE.len(),
            byte: u8,
        ) {
            let _ = (page(&junk), error(&junk));
            prop_assert!(page(&PAGE.as_bytes()[..cut]).is_err());
            let mut changed = PAGE.as_bytes().to_vec();
            changed[to] = byte;
            let _ = page(&changed);
        }
    }
}
