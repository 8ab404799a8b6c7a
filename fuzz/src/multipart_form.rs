//! A form with several files: its first line is the content type, the rest is the body.

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
    // Contents are pieces of the body, one behind the other.
    let mut end = body.as_ptr() as usize;
    let last = end + body.len();
    for (name, _, content) in &parts {
        assert!(!name.contains('\n'));
        let begin = content.as_ptr() as usize;
        assert!(end <= begin && begin + content.len() <= last);
        end = begin + content.len();
    }
    // A form of the same parts under a boundary that occurs nowhere is read as they are.
    let boundary = "a-boundary-that-occurs-nowhere-else";
    let nowhere = |text: &[u8]| {
        !text
            .windows(boundary.len())
            .any(|w| w == boundary.as_bytes())
    };
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric());
    let sayable = |(name, kind, content): &(String, String, &[u8])| {
        plain(name) && plain(kind) && nowhere(content)
    };
    if !parts.iter().all(sayable) {
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
