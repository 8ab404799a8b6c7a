//! Raw HTTP requests and their complete answers.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// An answer to a raw request.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// Whether the end of the body arrived.
    pub(crate) whole: bool,
}

impl Got {
    /// Value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|l| {
            let (key, value) = l.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn content_type(&self) -> &str {
        self.header("content-type").unwrap_or_default()
    }
}

/// The chunks of a body, and whether the last one arrived.
fn joined(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = rest.windows(2).position(|w| w == b"\r\n") else {
            return (body, false);
        };
        let size = std::str::from_utf8(&rest[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        let from = line + 2;
        let Some(piece) = rest.get(from..from + size) else {
            return (body, false);
        };
        body.extend_from_slice(piece);
        rest = &rest[from + size + 2..];
    }
}

pub(crate) fn send(
    address: SocketAddr,
    verb: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Got {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut request = format!(
        "{verb} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    if !headers.iter().any(|(name, _)| *name == "host") {
        request.push_str("host: localhost\r\n");
    }
    for (name, value) in headers {
        // Writing to a String cannot fail.
        let _ = write!(request, "{name}: {value}\r\n");
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    Got::read(&answer)
}

impl Got {
    /// Decodes an answer and joins its chunks.
    pub(crate) fn read(answer: &[u8]) -> Self {
        let at = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..at].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let rest = &answer[at + 4..];
        let (body, whole) = if head.contains("transfer-encoding: chunked") {
            joined(rest)
        } else {
            (rest.to_vec(), true)
        };
        Self {
            status,
            head,
            body: String::from_utf8(body).unwrap(),
            whole,
        }
    }
}

pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}
