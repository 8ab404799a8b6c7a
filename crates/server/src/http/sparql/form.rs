//! Multipart forms (`multipart/form-data`), as far as the Graph Store Protocol needs them.

/// One file of a form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FormPart<'a> {
    pub(crate) name: String,
    pub(crate) content_type: String,
    pub(crate) content: &'a [u8],
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|w| w == what)
}

/// A parameter of a header, as in `; boundary="x"`.
fn parameter(header: &str, name: &str) -> Option<String> {
    header.split(';').skip(1).find_map(|p| {
        let (key, value) = p.trim().split_once('=')?;
        key.eq_ignore_ascii_case(name)
            .then(|| value.trim_matches('"').to_owned())
    })
}

/// Longest boundary in bytes (RFC 2046, section 5.1.1). It is searched at each byte of a body, so a long one that almost occurs would
/// take time in proportion to the product of both lengths.
const BOUNDARY_BYTES_MAX: usize = 70;

/// Splits a body into its parts.
pub(crate) fn parts<'a>(content_type: &str, body: &'a [u8]) -> Result<Vec<FormPart<'a>>, String> {
    let boundary = parameter(content_type, "boundary")
        .filter(|b| !b.is_empty())
        .ok_or("the form's content type names no boundary")?;
    if boundary.len() > BOUNDARY_BYTES_MAX {
        return Err(format!(
            "the form's boundary has {} bytes; the most is {BOUNDARY_BYTES_MAX}",
            boundary.len()
        ));
    }
    let line = format!("--{boundary}");
    let inner = format!("\r\n{line}");
    let broken = || "the form ends before its last boundary".to_owned();
    let start = find(body, line.as_bytes()).ok_or_else(broken)? + line.len();
    let mut rest = body.get(start..).unwrap_or_default();
    let mut parts = Vec::new();
    while !rest.starts_with(b"--") {
        let head_ends = find(rest, b"\r\n\r\n").ok_or_else(broken)?;
        let (head, after) = rest.split_at(head_ends);
        let after = after.get(4..).unwrap_or_default();
        let end = find(after, inner.as_bytes()).ok_or_else(broken)?;
        let (content, after) = after.split_at(end);
        rest = after.get(inner.len()..).unwrap_or_default();
        let head = String::from_utf8_lossy(head);
        let header = |name: &str| {
            head.lines().find_map(|l| {
                let (key, value) = l.split_once(':')?;
                key.trim()
                    .eq_ignore_ascii_case(name)
                    .then(|| value.trim().to_owned())
            })
        };
        let name = header("content-disposition")
            .and_then(|d| parameter(&d, "filename").or_else(|| parameter(&d, "name")));
        parts.push(FormPart {
            name: name.unwrap_or_else(|| format!("part {}", parts.len() + 1)),
            content_type: header("content-type").unwrap_or_default(),
            content,
        });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_at_the_boundary() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a.ttl\"\r\n\
                    Content-Type: text/turtle\r\n\r\n<a> <b> \"--x\" .\r\n--x\r\ncontent-type: text/plain\r\n\r\n\r\n--x--\r\n";
        let found = parts("multipart/form-data; boundary=x", body.as_bytes()).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "a.ttl");
        assert_eq!(found[0].content_type, "text/turtle");
        assert_eq!(found[0].content, b"<a> <b> \"--x\" .");
        assert_eq!(
            (found[1].name.as_str(), found[1].content),
            ("part 2", &b""[..])
        );
        assert!(parts("multipart/form-data", body.as_bytes()).is_err());
        for cut in 0..body.len() - 4 {
            assert!(parts("multipart/form-data; boundary=x", &body.as_bytes()[..cut]).is_err());
        }
    }

    /// A boundary of several KiB, as a header can have it, with a body that repeats almost that boundary, took time in proportion to the
    /// product of both lengths.
    #[test]
    fn a_boundary_is_as_long_as_the_standard_says() {
        let form = |boundary: &str| {
            let body = format!("--{boundary}\r\n\r\nx\r\n--{boundary}--\r\n");
            let content_type = format!("multipart/form-data; boundary={boundary}");
            parts(&content_type, body.as_bytes()).map(|parts| parts.len())
        };
        assert_eq!(form(&"b".repeat(70)), Ok(1));
        assert!(form(&"b".repeat(71)).unwrap_err().contains("71 bytes"));
    }
}
