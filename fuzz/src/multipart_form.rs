//! Multipart forms: the first line of the input is the content type, the rest is the body.

use esker_server::hostile::form;

pub(crate) fn check(bytes: &[u8]) {
    let line = bytes.iter().position(|b| *b == b'\n');
    let (content_type, body) = bytes.split_at(line.unwrap_or(bytes.len()));
    let body = body.get(1..).unwrap_or_default();
    let content_type = String::from_utf8_lossy(content_type);
    let parts = match form(&content_type, body) {
        Ok(parts) => parts,
        Err(why) => return assert!(!why.is_empty()),
    };
    // Contents are consecutive slices of the body without overlaps.
    let mut end = body.as_ptr() as usize;
    let last = end + body.len();
    for (name, _, content) in &parts {
        assert!(!name.contains('\n'));
        let begin = content.as_ptr() as usize;
        assert!(end <= begin && begin + content.len() <= last);
        end = begin + content.len();
    }
    // A form of the same parts, with a boundary that does not occur in them, is parsed to the same parts.
    let boundary = "a-boundary-that-occurs-nowhere-else";
    let without_boundary = |text: &[u8]| {
        !text
            .windows(boundary.len())
            .any(|w| w == boundary.as_bytes())
    };
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric());
    let representable = |(name, kind, content): &(String, String, &[u8])| {
        plain(name) && plain(kind) && without_boundary(content)
    };
    if !parts.iter().all(representable) {
        return;
    }
    let mut again = Vec::new();
    for (name, kind, content) in &parts {
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\nContent-Type: {kind}\r\n\r\n"
        );
        again.extend_from_slice(head.as_bytes());
        again.extend_from_slice(content);
        again.extend_from_slice(b"\r\n");
    }
    again.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let read = form(&format!("multipart/form-data; boundary={boundary}"), &again);
    assert_eq!(read.as_deref(), Ok(&*parts));
}
