//! Requests to SPARQL endpoints over HTTP.

use esker_rdf::{ACCEPT, Solutions, read_solutions};
use esker_rpc::http::{Endpoint, RequestBody};
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// Time limit for connecting to an endpoint.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit for one request.
const TIME: Duration = Duration::from_mins(1);
/// Maximum bytes of a response.
const BYTES: u64 = 1 << 30;
/// Maximum of solutions in a response.
const ROWS: usize = 50_000_000;

/// Sends a query to an endpoint.
pub(super) fn send(
    endpoint: &str,
    query: &str,
    stop: &dyn Fn() -> bool,
) -> Result<Solutions, String> {
    let (server, path) = Endpoint::of_url(endpoint, PATIENCE).map_err(|e| e.to_string())?;
    let headers = [
        ("content-type", "application/sparql-query"),
        ("accept", ACCEPT),
        ("user-agent", "esker"),
    ];
    let until = Instant::now().checked_add(TIME);
    let mut answer = server
        .request(
            "POST",
            &path,
            &headers,
            RequestBody::Bytes(query.as_bytes()),
            stop,
            until,
        )
        .map_err(|e| e.to_string())?;
    if answer.status != 200 {
        let status = answer.status;
        let text = answer.text(4_096).unwrap_or_default();
        let text = text.trim_end();
        return Err(format!("it answered with status {status}: {text}"));
    }
    let content_type = answer.header("content-type").to_owned();
    read_solutions(
        &content_type,
        Bounded {
            from: &mut answer,
            left: BYTES,
        },
        ROWS,
    )
}

/// Reader with a maximum of bytes; more bytes are an error, not an end of file.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.left = self
            .left
            .checked_sub(n as u64)
            .ok_or_else(|| io::Error::other(format!("its answer has more than {BYTES} bytes")))?;
        Ok(n)
    }
}
